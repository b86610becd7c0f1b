# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The records of a batch that stay when a log is compacted, and their bytes.

Of the records up to the last one that the map knows of:
    without a key: none;
    older than the newest one of its key: none;
    the newest one with a value: stays; without one: stays unless tombstones are dropped.
All records above stay.

Records are copied as they are, since their deltas hold while the batch keeps its base offset and
base timestamp. Only where a delete horizon takes the place of the base timestamp, each timestamp
delta is encoded again (KIP-534).

Invariant: pointers go into the buffer that `_hold` keeps exported.

Thread-safety: one thread at a time. If the bytes change meanwhile, memory stays safe.
Source: Kafka Cleaner.shouldRetainRecord and MemoryRecords.filterTo (clients 4.3.1).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kprod._core.record.batch_reader cimport RecordBatch
from kprod._core.record.offset_map cimport OffsetMap
from kprod._core.record.record_fields cimport RecordFields, read_varint, read_varlong
from kprod._core.record.record_iterator cimport RecordIterator
from kprod._core.varint cimport put_varint, put_varlong, varint_size, varlong_size

from kprod.errors import CorruptRecord

cdef enum:
    # Keys are hashed this many records ahead of the use of their slots, which are prefetched.
    AHEAD = 32


@cython.final
cdef class KeptRecords:
    """Records of one batch that stay.

    Args:
        batch: A batch, perhaps compressed.
        offsets: Newest offsets by key; None keeps all records.
        drops_tombstones: Whether the batch's delete horizon is over.

    Attributes:
        record_count: How many stay.
        invalid_count: Records without a key that the map covers; they do not stay.
        max_timestamp_ms: Largest timestamp of those that stay; -1 without any.
        has_tombstone: Whether one of those that stay has no value.

    Raises:
        CorruptRecord: The records are malformed.

    Thread-safety: one thread at a time.
    """

    def __init__(self, RecordBatch batch not None, OffsetMap offsets, bint drops_tombstones):
        cdef RecordIterator records = batch._iterate(False)
        if self._spans != NULL:
            raise TypeError("KeptRecords are made once")
        self._hold = records._hold
        self.max_timestamp_ms = -1
        self._spans = <Span*>PyMem_RawMalloc(
            <size_t>max(records._batch.record_count, 1) * sizeof(Span))
        if self._spans == NULL:
            raise MemoryError(f"no memory for a batch's records: {records._batch.record_count}")
        if offsets is not None:
            offsets._allocate()
        self._read(records, offsets, drops_tombstones)

    def __dealloc__(self):
        PyMem_RawFree(self._spans)

    cdef int _read(
        self, RecordIterator records, OffsetMap offsets, bint drops_tombstones
    ) except -1:
        """Find the records that stay."""
        cdef RecordFields fields
        cdef Judged[AHEAD] judged
        cdef Judged* it
        cdef int pending = 0
        cdef int32_t count = records._batch.record_count
        while records._index < count:
            it = &judged[pending]
            it.span.start = records._at
            records._read(&fields)
            it.span.end = fields.end
            it.span.timestamp_ms = records._timestamp_ms(&fields)
            it.hashed.above = records._batch.base_offset + fields.offset_delta + 1
            it.has_key = fields.key_length >= 0
            it.has_value = fields.value_length >= 0
            if offsets is not None and it.has_key:
                offsets._hash(fields.key, fields.key_length, &it.hashed)
                offsets._prefetch(&it.hashed)
            pending += 1
            if pending == AHEAD:
                self._judge(judged, pending, offsets, drops_tombstones)
                pending = 0
        self._judge(judged, pending, offsets, drops_tombstones)
        records._check_end()
        return 0

    cdef int _judge(
        self, const Judged* judged, int count, OffsetMap offsets, bint drops_tombstones
    ) except -1:
        cdef const Judged* it
        cdef int index
        for index in range(count):
            it = &judged[index]
            if offsets is not None and it.hashed.above <= offsets.latest_offset + 1:
                if not it.has_key:
                    self.invalid_count += 1
                    continue
                if it.hashed.above < offsets._place(&it.hashed).above:
                    continue
                if not it.has_value and drops_tombstones:
                    continue
            self._spans[self.record_count] = it.span
            self.record_count += 1
            self.has_tombstone |= not it.has_value
            self.max_timestamp_ms = max(self.max_timestamp_ms, it.span.timestamp_ms)
        return 0

    def copied(self):
        """Copy the records' bytes.

        Returns:
            The records that stay, one after another, not compressed.
        """
        cdef Py_ssize_t size = 0
        cdef int32_t index
        cdef char* at
        for index in range(self.record_count):
            size += self._spans[index].end - self._spans[index].start
        made = PyBytes_FromStringAndSize(NULL, size)
        at = PyBytes_AS_STRING(made)
        for index in range(self.record_count):
            size = self._spans[index].end - self._spans[index].start
            memcpy(at, self._spans[index].start, size)
            at += size
        return made

    def stamped(self, int64_t base_timestamp_ms):
        """Copy the records' bytes with timestamps relative to another base.

        Args:
            base_timestamp_ms: The base.

        Returns:
            The records that stay, one after another, not compressed.

        Raises:
            CorruptRecord: The bytes have changed since they were checked.
        """
        cdef Py_ssize_t size = 0
        cdef int32_t index, body
        cdef int64_t delta
        cdef Span* span
        cdef unsigned char* at
        for index in range(self.record_count):
            span = &self._spans[index]
            self._find_rest(span)
            body = body_size(span, base_timestamp_ms)
            size += varint_size(body) + body
        made = PyBytes_FromStringAndSize(NULL, size)
        at = <unsigned char*>PyBytes_AS_STRING(made)
        for index in range(self.record_count):
            span = &self._spans[index]
            delta = span.timestamp_ms - base_timestamp_ms
            at = put_varint(at, body_size(span, base_timestamp_ms))
            at[0] = 0  # attributes, of which no version of Kafka uses any
            at = put_varlong(at + 1, delta)
            size = span.end - span.rest
            memcpy(at, span.rest, size)
            at += size
        return made

    cdef int _find_rest(self, Span* span) except -1:
        cdef const uint8_t* at = span.start
        cdef int32_t length
        cdef int64_t delta
        if read_varint(&at, span.end, &length) and at < span.end:
            at += 1
            if read_varlong(&at, span.end, &delta):
                span.rest = at
                return 0
        raise CorruptRecord("a record changed while it was read")


# Bytes of a record after its length: attributes, timestamp delta, the rest.
cdef inline int32_t body_size(const Span* span, int64_t base_timestamp_ms) noexcept:
    cdef int64_t delta = span.timestamp_ms - base_timestamp_ms
    return <int32_t>(1 + varlong_size(delta) + (span.end - span.rest))
