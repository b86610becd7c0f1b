# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The reader of record batches of format V2, in place: headers at once, records lazily.

The bytes are untrusted. Each length is copied out of the buffer once, compared with the remaining
bytes, and only then used; a count is compared with the bytes that could hold it before anything is
allocated for it. A malformed batch raises `CorruptRecord` and no other error. A buffer may end
inside a batch, which is not an error: the reader stops and reports the missing bytes.
`record_iterator` reads the records.

Invariant: any object with a pointer into a buffer also holds the `BufferHold` that keeps the buffer
exported.

Thread-safety: a batch and a reader may be used by one thread at a time. If the bytes under a batch
change meanwhile, memory stays safe.
Source: Kafka DefaultRecordBatch, DefaultRecord and ByteUtils (clients 4.3.1); KIP-98, KIP-534 for
the delete horizon.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory, PyMemoryView_GET_BUFFER
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t


from kprod._core.endian cimport load_int16, load_int32, load_int64
from kprod._core.checksum cimport crc32c
from kprod._core.layout cimport (
    ATTRIBUTES_OFFSET,
    BASE_OFFSET_OFFSET,
    BASE_SEQUENCE_OFFSET,
    BASE_TIMESTAMP_OFFSET,
    BATCH_LENGTH_OFFSET,
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    CONTROL_MASK,
    CRC_OFFSET,
    DELETE_HORIZON_MASK,
    LAST_OFFSET_DELTA_OFFSET,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    MAX_TIMESTAMP_OFFSET,
    PARTITION_LEADER_EPOCH_OFFSET,
    PRODUCER_EPOCH_OFFSET,
    PRODUCER_ID_OFFSET,
    RECORD_COUNT_OFFSET,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kprod._core.record.record_fields cimport RECORD_BYTES_MIN
from kprod._core.record.record_iterator cimport BufferHold, RecordIterator

from kprod.errors import CorruptRecord

cdef enum:
    # These bytes hold the length, but not the magic and the checksum.
    BATCH_HEAD_BYTES = 17
    INT32_MAX_VALUE = 0x7FFFFFFF
    COPIED_BYTES_MAX = 4096


@cython.final
cdef class BatchReader:
    """Iterator over the batches of one buffer.

    Args:
        buffer: Consecutive batches; the last one may be cut off.
        check_crc: False skips checksums; the structure is still checked.
        decompress: Called with codec number and compressed bytes when a compressed batch is
            iterated.
        batch_bytes_max: A larger batch is corrupt; at least 61.

    Attributes:
        position: Bytes of whole batches read so far.

    Thread-safety: one thread at a time.
    """

    def __init__(self, buffer, *, bint check_crc=True, decompress=None,
                 int32_t batch_bytes_max=INT32_MAX_VALUE):
        self._view = _bytes_view(buffer)
        self._hold = BufferHold(self._view)
        self._check_crc = check_crc
        self._decompress = decompress
        self._batch_bytes_max = batch_bytes_max
        self.position = 0

    @property
    def remaining_bytes(self):
        """Bytes after `position`; at the end of the iteration, those of a cut-off batch."""
        return self._hold.size - self.position

    @property
    def needed_bytes(self):
        """Size of the batch at `position`: 12 until its length field is in the buffer.

        0 at the end of the buffer.
        """
        cdef Py_ssize_t remaining = self._hold.size - self.position
        if remaining == 0:
            return 0
        if remaining < LOG_OVERHEAD_BYTES:
            return LOG_OVERHEAD_BYTES
        return LOG_OVERHEAD_BYTES + <int64_t>load_int32(
            self._hold.start + self.position + BATCH_LENGTH_OFFSET)

    def __iter__(self):
        return self

    def __next__(self):
        cdef RecordBatch batch = self._next_batch()
        if batch is None:
            raise StopIteration
        return batch

    cdef RecordBatch _next_batch(self):
        """Return the next whole batch with its header checked, or None."""
        cdef Py_ssize_t remaining = self._hold.size - self.position
        cdef const uint8_t* start = self._hold.start + self.position
        cdef int64_t size
        cdef RecordBatch batch
        if remaining < LOG_OVERHEAD_BYTES:
            return None
        size = LOG_OVERHEAD_BYTES + <int64_t>load_int32(start + BATCH_LENGTH_OFFSET)
        if remaining >= BATCH_HEAD_BYTES and (start + MAGIC_OFFSET)[0] != MAGIC_V2:
            raise CorruptRecord(
                f"batch at byte {self.position}: magic {(start + MAGIC_OFFSET)[0]}, "
                "only 2 is read here")
        if size < BATCH_OVERHEAD_BYTES or size > self._batch_bytes_max:
            raise CorruptRecord(
                f"batch at byte {self.position}: {size} bytes, "
                f"must be {<int>BATCH_OVERHEAD_BYTES} to {self._batch_bytes_max}")
        if remaining < size:
            return None
        batch = RecordBatch.__new__(RecordBatch)
        batch._hold = self._hold
        batch._start = start
        batch._decompress = self._decompress
        batch.position = self.position
        batch.length = <int32_t>(size - LOG_OVERHEAD_BYTES)
        batch._reader_view = self._view
        batch._load()
        if self._check_crc and not batch._is_crc_valid():
            raise CorruptRecord(
                f"batch at byte {self.position}, base offset {batch.base_offset}: "
                f"checksum {batch.crc:#010x} does not match its {size} bytes")
        self.position += size
        return batch


cdef BatchReader open_batches(object buffer, bint check_crc, object decompress):
    cdef BatchReader reader = BatchReader.__new__(BatchReader)
    reader._view = _bytes_view(buffer)
    reader._hold = BufferHold(reader._view)
    reader._check_crc = check_crc
    reader._decompress = decompress
    reader._batch_bytes_max = INT32_MAX_VALUE
    reader.position = 0
    return reader


cdef object _bytes_view(object buffer):
    """Return a memoryview of bytes; the argument itself if it is one."""
    cdef const Py_buffer* raw
    if type(buffer) is memoryview:
        raw = PyMemoryView_GET_BUFFER(buffer)
        if raw.ndim == 1 and raw.itemsize == 1 and raw.format != NULL and (
                raw.format[0] == ord(b"B") and raw.format[1] == 0 and raw.suboffsets == NULL) and (
                raw.strides == NULL or raw.strides[0] == 1):
            return buffer
    return memoryview(buffer).cast("B")


@cython.final
cdef class RecordBatch:
    """One batch of format V2, a view of a reader's buffer.

    Iterating it gives records of the registered type. A compressed batch is decompressed on each
    iteration; the result is not kept.

    Attributes:
        view: All bytes of the batch.
        position: Its start in the reader's buffer.
        base_offset: Offset of the first record that it was written with.
        length: The header's length field, 12 less than `size_bytes`.
        partition_leader_epoch: -1 if no broker has set it.
        magic: 2.
        crc: The stored checksum.
        attributes: The stored bits.
        last_offset_delta: ≥ 0.
        base_timestamp_ms: Timestamp to which the records' timestamps are relative.
        max_timestamp_ms: The latest timestamp of a record, or the broker's timestamp.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: -1 for none.
        record_count: ≥ 0; a compacted batch may be empty.

    Thread-safety: one thread at a time.
    """

    def __init__(self):
        raise TypeError("a RecordBatch comes from a BatchReader")

    cdef int _load(self) except -1:
        """Read the header's fields and check them as far as possible without the records."""
        cdef const uint8_t* start = self._start
        self.base_offset = load_int64(start + BASE_OFFSET_OFFSET)
        self.partition_leader_epoch = load_int32(start + PARTITION_LEADER_EPOCH_OFFSET)
        self.magic = <int8_t>(start + MAGIC_OFFSET)[0]
        self.crc = <uint32_t>load_int32(start + CRC_OFFSET)
        self.attributes = load_int16(start + ATTRIBUTES_OFFSET)
        self.last_offset_delta = load_int32(start + LAST_OFFSET_DELTA_OFFSET)
        self.base_timestamp_ms = load_int64(start + BASE_TIMESTAMP_OFFSET)
        self.max_timestamp_ms = load_int64(start + MAX_TIMESTAMP_OFFSET)
        self.producer_id = load_int64(start + PRODUCER_ID_OFFSET)
        self.producer_epoch = load_int16(start + PRODUCER_EPOCH_OFFSET)
        self.base_sequence = load_int32(start + BASE_SEQUENCE_OFFSET)
        self.record_count = load_int32(start + RECORD_COUNT_OFFSET)
        if self.last_offset_delta < 0 or (
                self.base_offset > 0x7FFFFFFFFFFFFFFF - <int64_t>self.last_offset_delta):
            raise CorruptRecord(
                f"batch at byte {self.position}: base offset {self.base_offset}, "
                f"last offset delta {self.last_offset_delta}")
        if self.record_count < 0:
            raise CorruptRecord(f"batch at byte {self.position}: record count {self.record_count}")
        if not self.attributes & CODEC_MASK:
            self._check_count(self.length + LOG_OVERHEAD_BYTES - BATCH_OVERHEAD_BYTES)
        return 0

    cdef int _check_count(self, Py_ssize_t records_bytes) except -1:
        """Reject a record count that the bytes cannot hold."""
        if self.record_count > records_bytes // RECORD_BYTES_MIN:
            raise CorruptRecord(
                f"batch at byte {self.position}: record count {self.record_count} in "
                f"{records_bytes} bytes, of which each takes at least {<int>RECORD_BYTES_MIN}")
        return 0

    @property
    def view(self):
        """All bytes of the batch."""
        return self._reader_view[self.position:self.position + self.size_bytes]

    @property
    def size_bytes(self):
        """Bytes of the batch, header included."""
        return self.length + <Py_ssize_t>LOG_OVERHEAD_BYTES

    @property
    def last_offset(self):
        """Offset of the last record that it was written with."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self):
        """Sequence of the last record, wrapped at 2**31; -1 for none."""
        if self.base_sequence < 0:
            return -1
        return (<int64_t>self.base_sequence + self.last_offset_delta) & INT32_MAX_VALUE

    @property
    def codec(self):
        """Number of the compression codec, 0 to 7."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self):
        """0 if the producer set the timestamps, 1 if the broker did."""
        return 1 if self.attributes & TIMESTAMP_TYPE_MASK else 0

    @property
    def is_transactional(self):
        """Whether the batch belongs to a transaction."""
        return (self.attributes & TRANSACTIONAL_MASK) != 0

    @property
    def is_control(self):
        """Whether the records are control records, which no application sees."""
        return (self.attributes & CONTROL_MASK) != 0

    @property
    def delete_horizon_ms(self):
        """Time after which compaction may remove tombstones and markers, or None."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def records_view(self):
        """The bytes after the header, still compressed."""
        return self._reader_view[
            self.position + BATCH_OVERHEAD_BYTES:self.position + self.length + LOG_OVERHEAD_BYTES]

    def has_valid_crc(self):
        """Compute the checksum and compare it with the stored one.

        Returns:
            Whether they are equal.
        """
        if self._hold is None:
            raise TypeError("a RecordBatch comes from a BatchReader")
        return self._is_crc_valid()

    cdef bint _is_crc_valid(self) except -1:
        cdef char* start = <char*>self._start + ATTRIBUTES_OFFSET
        cdef Py_ssize_t size = self.length + LOG_OVERHEAD_BYTES - ATTRIBUTES_OFFSET
        cdef uint32_t found
        # A view of the memory, which the hold keeps, costs less than a slice of the reader's view,
        # and a copy of few bytes costs less than a view.
        covered = PyBytes_FromStringAndSize(start, size) if size <= COPIED_BYTES_MAX else (
            PyMemoryView_FromMemory(start, size, PyBUF_READ))
        found = crc32c(covered, 0)
        return found == self.crc

    def check_records(self, *, bint contiguous=False):
        """Check all records without creating objects for them.

        Args:
            contiguous: True also requires that the records are numbered 0, 1, 2 … up to the last
                offset, as producers write them.

        Returns:
            The latest timestamp of a record, milliseconds since 1970; -1 for an empty batch.

        Raises:
            CorruptRecord: The records are malformed, or their numbers have gaps.
        """
        return (<RecordIterator>self._iterate(False)).check(contiguous)

    def tuples(self):
        """Iterate `(key, value, headers)`, headers as pairs, which is faster than whole records.

        Returns:
            The iterator; it raises CorruptRecord at a malformed record.
        """
        return self._iterate(True)

    def __iter__(self):
        return self._iterate(False)

    cdef RecordIterator _iterate(self, bint as_tuples):
        cdef RecordIterator iterator = RecordIterator.__new__(RecordIterator)
        cdef Py_ssize_t size = self.length + LOG_OVERHEAD_BYTES - BATCH_OVERHEAD_BYTES
        iterator._batch.position = self.position
        iterator._batch.base_offset = self.base_offset
        iterator._batch.base_timestamp_ms = self.base_timestamp_ms
        iterator._batch.max_timestamp_ms = self.max_timestamp_ms
        iterator._batch.last_offset_delta = self.last_offset_delta
        iterator._batch.record_count = self.record_count
        iterator._batch.attributes = self.attributes
        iterator._as_tuples = as_tuples
        iterator._index = 0
        iterator._headers = ()
        if not self.attributes & CODEC_MASK:
            iterator._hold = self._hold
            iterator._at = self._start + BATCH_OVERHEAD_BYTES
        else:
            if self._decompress is None:
                raise TypeError(f"batch of codec {self.codec}, and the reader has no decompress")
            iterator._hold = BufferHold(self._decompress(self.codec, self.records_view))
            iterator._at = iterator._hold.start
            size = iterator._hold.size
            self._check_count(size)
        iterator._limit = iterator._at + size
        return iterator
