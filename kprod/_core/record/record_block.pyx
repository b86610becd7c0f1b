# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""One partition's part of a fetch response, and its records one after another.

A block is opened batch by batch: header, checksum, decompression, then the records, without copying
them. Only one batch is decompressed at a time. Batches of V2 and messages of V0 and V1 may be
mixed. Records that the application must not see are skipped: those below the requested offset,
control batches, and with `read_committed` those of aborted transactions. `next_offset` counts both
taken and skipped offsets, so that the position reaches the end of any log.

Faults. A malformed batch raises `CorruptRecord` with topic, partition and offset, after the records
before it were taken. The block stays where it is, so each further call raises the same.

Invariants.
    Offsets of taken records ascend, and `next_offset` never decreases. An error loses no record:
    records that were decoded before it are returned by the next call.

Thread-safety: one thread at a time. If the bytes change meanwhile, memory stays safe.
Source: Kafka CompletedFetch, MemoryRecords and LegacyRecord (clients 4.3.1); KIP-74 for a first
batch that is larger than the limit.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t

from kprod._core.endian cimport load_int32
from kprod._core.layout cimport (
    BATCH_LENGTH_OFFSET,
    CODEC_MASK,
    CONTROL_MASK,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V0,
    MAGIC_V2,
    TIMESTAMP_TYPE_MASK,
)
from kprod._core.record.aborted_transactions cimport AbortedTransactions
from kprod._core.record.batch_reader cimport RecordBatch, open_batches
from kprod._core.record.consumer_record cimport (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP_TYPE,
    ConsumerRecord,
    PartitionStamp,
    corrupt_record,
)
from kprod._core.record.decompression cimport (
    DECOMPRESSED_BYTES_MAX, Decompression, usual_decompression,
)
from kprod._core.record.message_set_reader cimport MessageEntry, Source
from kprod._core.record.record_fields cimport RecordFields
from kprod._core.record.record_iterator cimport RecordIterator
from kprod.errors import CorruptRecord

# Shared by the blocks, which are made for each response; never changed.
cdef list _NONE = []


@cython.final
cdef class RecordBlock:
    """Cursor over the records of one partition in one fetch response.

    Args:
        data: Batches after one another; the last may be cut off. It must not change its size while
            the block lives.
        stamp: Topic and partition, as records hold them.
        from_offset: Records below it are skipped; at least 0.
        aborted: Pairs of producer id and first offset of the aborted transactions in the response.
        read_committed: Whether to skip the records of aborted transactions.
        check_crcs: False skips checksums; the structure is still checked.
        max_decompressed: Maximum size of a decompressed batch.
        as_views: Whether keys and values are memoryviews that keep the block's memory alive,
            instead of bytes.

    Attributes:
        stamp: Topic and partition, as records hold them.
        next_offset: All records below it were taken or skipped.
        epoch: Leader epoch of the newest batch that was opened or skipped; -1 if unknown.
        size: Bytes of the block.
        decompressed_size: Bytes of the batch that is decompressed now; otherwise 0.

    Thread-safety: one thread at a time.
    """

    def __init__(self, data, PartitionStamp stamp not None, int64_t from_offset, *, aborted=(),
                 bint read_committed=False, bint check_crcs=True,
                 Py_ssize_t max_decompressed=DECOMPRESSED_BYTES_MAX, bint as_views=False):
        self._decompress = usual_decompression
        if max_decompressed != DECOMPRESSED_BYTES_MAX:
            self._decompress = Decompression(max_decompressed)
        self._as_views = as_views
        self._begin(data, stamp, from_offset, check_crcs)
        if read_committed:
            self._aborted = AbortedTransactions(aborted)

    cdef int _begin(
        self, object data, PartitionStamp stamp, int64_t from_offset, bint check_crcs
    ) except -1:
        """Start with the first batch; `_decompress` is set."""
        if from_offset < 0:
            raise ValueError(f"from_offset={from_offset}: must be 0 or more")
        self._batches = open_batches(data, check_crcs, self._decompress)
        self.stamp = stamp
        self.next_offset = from_offset
        self.epoch = NO_LEADER_EPOCH
        self.size = self._batches._hold.size
        self._is_read = self.size == 0
        self.kept = _NONE
        return 0

    @property
    def exhausted(self):
        """Whether nothing is left; the block's bytes are free then, unless views are in use."""
        return self._is_read and not self.kept

    cpdef bint is_exhausted(self) except -1:
        """Like `exhausted`, for compiled callers."""
        return self._is_read and not self.kept

    cpdef list take(self, Py_ssize_t count):
        """Take the next records.

        Args:
            count: Maximum number of records; at least 0.

        Returns:
            A list of `ConsumerRecord` with ascending offsets. It is shorter if the block is
            exhausted, or if a batch after these records is malformed.

        Raises:
            CorruptRecord: The next batch is malformed.
        """
        cdef list taken = []
        cdef ConsumerRecord record
        try:
            while count > 0:
                record = self.next_record()
                if record is None:
                    break
                taken.append(record)
                count -= 1
        except CorruptRecord:
            if not taken:
                raise
        except BaseException:
            self.kept = taken + self.kept
            raise
        return taken

    cdef ConsumerRecord next_record(self):
        """Return the next record, or None at the end of the block."""
        cdef RecordFields fields
        cdef ConsumerRecord record
        if self.kept:
            return self.kept.pop(0)
        if not self._advance(&fields):
            return None
        record = self._make(&fields) if self.row is None else self._make_from_row()
        self.next_offset = record.offset + 1
        try:
            self.settle()
        except BaseException:
            self.kept = self.kept + [record]
            raise
        return record

    cdef bint has_next(self) except -1:
        while True:
            if self.row is not None:
                return True
            if self.records is not None and self.records._index < self.records._batch.record_count:
                return True
            if not self._open_next():
                return False

    cdef bint _advance(self, RecordFields* fields) except -1:
        """Read the next record to be taken, or leave it in `row`; return False at the end."""
        cdef RecordIterator records
        while self.has_next():
            records = self.records
            if self.row is not None:
                return True
            try:
                records._read(fields)
            except CorruptRecord as error:
                raise corrupt_record(self.stamp, self.next_offset, error) from error
            if records._batch.base_offset + fields.offset_delta >= self.next_offset:
                return True
        return False

    cdef int settle(self) except -1:
        cdef RecordIterator records = self.records
        if records is not None and records._index < records._batch.record_count:
            return 0
        try:
            if records is None:
                self._next_row()
            if self.row is None:
                self._open_next()
        except CorruptRecord:
            pass  # the next call meets it again, and raises it
        return 0

    cdef ConsumerRecord _make(self, const RecordFields* fields):
        cdef RecordIterator records = self.records
        cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
        record.stamp = self.stamp
        record.offset = records._batch.base_offset + fields.offset_delta
        record.timestamp_ms = records._timestamp_ms(fields)
        record.time_type = self.time_type
        record.epoch = self.epoch
        record.key = self._content(fields.key, fields.key_length)
        record.value = self._content(fields.value, fields.value_length)
        if fields.header_count:
            record.header_count = fields.header_count
            record.encoded_headers = PyBytes_FromStringAndSize(
                <const char*>fields.headers, fields.end - fields.headers)
        return record

    cdef ConsumerRecord _make_from_row(self):
        cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
        record.stamp = self.stamp
        record.offset, record.timestamp_ms, key, value, _ = self.row
        record.time_type = self.time_type
        record.epoch = NO_LEADER_EPOCH
        if self._as_views:
            key = None if key is None else PyMemoryView_FromObject(key)
            value = None if value is None else PyMemoryView_FromObject(value)
        record.key = key
        record.value = value
        return record

    cdef inline object _content(self, const uint8_t* start, int32_t length):
        if length < 0:
            return None
        if self._as_views:
            return self._view[start - self._view_start:start - self._view_start + length]
        return PyBytes_FromStringAndSize(<const char*>start, length)

    cdef int _close_batch(self) except -1:
        """End the open batch, whose records were all read; its last offset counts."""
        if self.records is not None:
            self.records._check_end()
            self.records = None
            self._view = None
            self.decompressed_size = 0
            self._pass_to(self._last_offset)
        return 0

    cdef bint _open_next(self) except -1:
        """Open the next batch that has something to take; return False at the end of the block."""
        if self._is_read:
            return False
        try:
            self._close_batch()
            while self._open_checked():
                if self.row is not None or self.records is not None:
                    return True
            return False
        except CorruptRecord as error:
            raise corrupt_record(self.stamp, self.next_offset, error) from error

    cdef bint _open_checked(self) except -1:
        """Open the entry at the position, or skip it; return False at the end of the block."""
        cdef Py_ssize_t remaining = self.size - self._position
        cdef RecordBatch batch
        if remaining <= MAGIC_OFFSET:
            return self._finish()
        if (self._batches._hold.start + self._position + MAGIC_OFFSET)[0] < MAGIC_V2:
            self._open_message()
            return not self._is_read
        self._batches.position = self._position
        batch = self._batches._next_batch()
        if batch is None:
            return self._finish()
        self.epoch = batch.partition_leader_epoch
        if not self._passes_over(batch):
            self._open_batch(batch)
        else:
            self._pass_to(batch.base_offset + batch.last_offset_delta)
        self._position = self._batches.position
        return True

    cdef bint _finish(self) except -1:
        """Free the block's bytes; those that are left are a batch that was cut off."""
        if self._position == 0:
            self._raise_cut()
        self._is_read = True
        self._batches = None
        self._messages = None
        return False

    cdef int _raise_cut(self) except -1:
        whole = "at least 12"
        if self.size >= LOG_OVERHEAD_BYTES:
            whole = LOG_OVERHEAD_BYTES + load_int32(self._batches._hold.start + BATCH_LENGTH_OFFSET)
        raise CorruptRecord(
            f"the response has {self.size} bytes of the first batch, which has {whole}; a broker "
            "must send the first batch whole, whatever max_partition_fetch_bytes is")

    cdef bint _passes_over(self, RecordBatch batch) except -1:
        """Follow the transactions; return whether no record of the batch is to be taken."""
        cdef int64_t last_offset = batch.base_offset + batch.last_offset_delta
        cdef bint is_control = batch.attributes & CONTROL_MASK
        if self._aborted is not None and self._aborted.covers(batch, last_offset, is_control):
            return True
        return is_control or last_offset < self.next_offset or batch.record_count == 0

    cdef int _open_batch(self, RecordBatch batch) except -1:
        cdef RecordIterator records = batch._iterate(False)
        cdef object memory
        if self._as_views:
            memory = PyMemoryView_FromObject(<object>records._hold._buffer.obj)
            self._view = memory.cast("B").toreadonly()
            self._view_start = records._hold.start
        self._last_offset = batch.base_offset + batch.last_offset_delta
        _check_last_offset(self._last_offset)
        self.time_type = 1 if batch.attributes & TIMESTAMP_TYPE_MASK else 0
        self.decompressed_size = records._hold.size if batch.attributes & CODEC_MASK else 0
        self.records = records
        return 0

    cdef int _open_message(self) except -1:
        """Open the message of an old format at the position."""
        cdef MessageEntry entry = MessageEntry.__new__(MessageEntry)
        if self._messages is None:
            self._messages = Source(self._batches._view, self._batches._check_crc)
        if not self._messages.parse(self._position, &entry._message):
            self._finish()
            return 0
        entry._source = self._messages
        entry._decompress = self._decompress
        self.epoch = NO_LEADER_EPOCH
        self.time_type = NO_TIMESTAMP_TYPE
        if entry._message.magic != MAGIC_V0:
            self.time_type = 1 if entry._message.attributes & TIMESTAMP_TYPE_MASK else 0
        self._last_offset = entry._message.offset
        _check_last_offset(self._last_offset)
        self._rows = iter(entry) if self._last_offset >= self.next_offset or (
            entry._message.attributes & CODEC_MASK) else iter(())
        self._message_bytes = LOG_OVERHEAD_BYTES + entry._message.size_bytes
        self._next_row()
        return 0

    cdef int _next_row(self) except -1:
        """Move to the next row that is to be taken, or end the message."""
        self.row = None
        for row in self._rows:
            _check_last_offset(row[0])
            if row[0] >= self.next_offset:
                self.row = row
                return 0
        self._pass_to(self._last_offset)
        self._rows = None
        self._position += self._message_bytes
        return 0

    cdef int _pass_to(self, int64_t last_offset) except -1:
        """Count everything up to an offset as taken or skipped."""
        _check_last_offset(last_offset)
        if last_offset >= self.next_offset:
            self.next_offset = last_offset + 1
        return 0


cdef inline int _check_last_offset(int64_t offset) except -1:
    """Reject the one offset that nothing can follow."""
    if offset == INT64_MAX:
        raise CorruptRecord(f"offset {offset}, after which there is none")
    return 0


cpdef RecordBlock open_record_block(
    object data, PartitionStamp stamp, int64_t from_offset, bint check_crcs, bint as_views
):
    """Open a block as the constructor does, in C, for the usual case: nothing is left out.

    Args:
        data: As for the constructor, and the others, too.
        stamp: Topic and partition.
        from_offset: Records below it are skipped; at least 0.
        check_crcs: Whether checksums are verified.
        as_views: Whether keys and values are memoryviews.

    Returns:
        The block.

    Raises:
        ValueError: `from_offset` is negative.
    """
    cdef RecordBlock block = RecordBlock.__new__(RecordBlock)
    block._decompress = usual_decompression
    block._as_views = as_views
    block._begin(data, stamp, from_offset, check_crcs)
    return block
