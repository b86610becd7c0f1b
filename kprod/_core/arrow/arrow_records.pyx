# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Returns records as Arrow columns, without creating an object for each record.

Each batch is walked twice with the GIL released: once to check its records and to add up their
sizes, once to copy them. Between the walks memory is reserved, once for all of them. Messages of
the old formats, which few logs still have, go record by record.

The columns, whose names are Spark's: `topic` (dictionary), `partition`, `offset`, `timestamp` (UTC,
null if there is none), `key`, `value`, `headers` (list of key and value; empty for no headers), and
on request `leader_epoch` and `timestamp_type` (0 producer, 1 broker, null in format V0).

Thread-safety: one thread at a time.
Source: Arrow PyCapsule interface (Arrow 20 documents); Spark's Kafka source for the names.
"""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.string cimport memset

from kprod._core.arrow.arrow_abi cimport ArrowArray, ArrowSchema
from kprod._core.arrow.arrow_buffers cimport (
    array_capsule,
    BytesBuilder,
    drop_schema,
    put_bytes,
    put_int32,
    release_bytes,
    reserve,
    reserve_bytes,
    schema_capsule,
)
from kprod._core.arrow.record_columns cimport (
    FAULT_CHANGED,
    FAULT_HEADER_TEXT,
    BatchRows,
    RecordColumns,
    RowSizes,
    Walk,
    array_of,
    content_bytes_of,
    copy,
    measure,
    put_common,
    put_numbers,
    release_columns,
    reserve_rows,
    schema_of,
)
from kprod._core.record.consumer_record cimport ConsumerRecord, corrupt_record
from kprod._core.record.record_block cimport RecordBlock
from kprod._core.record.record_fields cimport FAULT_NONE, Fault
from kprod._core.record.record_iterator cimport BatchFields, BufferHold, RecordIterator

from kprod.errors import CorruptRecord


@cython.final
cdef class ArrowColumns:
    """Columns of one table, filled from blocks and then exported.

    Args:
        leader_epoch: Whether there is a column for the epoch of the leader.
        timestamp_type: Whether there is a column that says if the broker set the timestamp.

    Thread-safety: one thread at a time.
    """

    def __init__(self, *, bint leader_epoch=False, bint timestamp_type=False):
        self._columns.has_leader_epoch = leader_epoch
        self._columns.has_timestamp_type = timestamp_type
        self._topics = {}

    def __dealloc__(self):
        release_columns(&self._columns)
        release_bytes(&self._topic_names)

    @property
    def row_count(self):
        """Rows since the last export."""
        return self._columns.row_count

    @property
    def content_bytes(self):
        """Bytes of the rows' keys, values and headers."""
        return self._columns.content_bytes

    def append(self, RecordBlock block not None, int64_t max_rows, int64_t max_bytes):
        """Take records of a block as rows.

        After an error the columns hold the rows that were taken before it.

        Args:
            block: Its position moves as if the records were taken.
            max_rows: Maximum number of rows to add.
            max_bytes: Maximum number of bytes to add: keys, values and headers, and never more than
                2 GiB in a table. The first row of a table is taken whatever its size.

        Returns:
            How many rows were taken. If the block is not exhausted, a limit was met, or a batch
            after these rows is malformed, which the next call reports.

        Raises:
            CorruptRecord: The next record is malformed.
            MemoryError: No memory for the columns; no record is lost.
        """
        cdef int64_t begin = self._columns.row_count
        cdef int64_t bytes_end = INT32_MAX
        if max_bytes < INT32_MAX - self._columns.content_bytes:
            bytes_end = self._columns.content_bytes + max(max_bytes, 0)
        # Otherwise the values would be moved again and again as the column grows. It is only an
        # advance: each batch reserves what it needs.
        reserve(&self._columns.value.content, min(block.size, bytes_end))
        try:
            while self._columns.row_count - begin < max_rows and (block.kept or block.has_next()):
                if not self._append_some(
                        block, max_rows - (self._columns.row_count - begin),
                        bytes_end - self._columns.content_bytes):
                    break
        except CorruptRecord:
            if self._columns.row_count == begin:
                raise
        return self._columns.row_count - begin

    def export(self):
        """Return the rows; later rows begin another table.

        Returns:
            Capsules of the schema and of the array, as `__arrow_c_array__` returns them.

        Raises:
            MemoryError: No memory for the structures; the rows are kept.
        """
        cdef RowSizes nothing
        cdef ArrowSchema* schema
        cdef ArrowArray* array = NULL
        memset(&nothing, 0, sizeof(RowSizes))
        self._reserve(&nothing)
        if not reserve_bytes(&self._topic_names, 0, 0):
            raise MemoryError("no memory for the names of topics")
        schema = schema_of(&self._columns)
        if schema != NULL:
            array = array_of(&self._columns, &self._topic_names)
        if array == NULL:
            drop_schema(schema)
            raise MemoryError("no memory for the structures of an Arrow array")
        self._topics = {}
        return schema_capsule(schema), array_capsule(array)

    def __arrow_c_array__(self, requested_schema=None):
        """Export by the PyCapsule interface; a requested schema is not followed."""
        return self.export()

    cdef bint _append_some(self, RecordBlock block, int64_t rows_max, int64_t bytes_max) except -1:
        """Take at least one record; return False if the limits forbid it."""
        if block.kept or block.row is not None:
            return self._append_one(block, bytes_max)
        return self._append_batch(block, rows_max, bytes_max)

    cdef bint _append_batch(self, RecordBlock block, int64_t rows_max, int64_t bytes_max) except -1:
        """Take what the limits allow of the block's open batch."""
        cdef RecordIterator records = block.records
        cdef BatchFields batch = records._batch
        cdef BatchRows rows
        cdef Walk walk
        cdef Walk measured
        cdef bint has_memory
        rows.topic = self._topic_index(block.stamp.topic)
        rows.partition = block.stamp.partition
        rows.leader_epoch = block.epoch
        memset(&walk, 0, sizeof(Walk))
        walk.at = records._at
        walk.limit = records._limit
        walk.index = records._index
        walk.next_offset = block.next_offset
        measured = walk
        with nogil:  # once: while a thread is busy, the GIL comes back only every 5 ms
            measure(&measured, &batch, rows_max, bytes_max, self._columns.row_count == 0)
            has_memory = reserve_rows(&self._columns, &measured.sizes)
            if has_memory:
                copy(&self._columns, &walk, &batch, &measured)
                put_common(&self._columns, walk.sizes.row_count, &rows)
        if not has_memory:
            _raise_no_memory(&measured.sizes)
        records._at = walk.at
        records._index = walk.index
        block.next_offset = walk.next_offset
        if walk.fault == FAULT_NONE:
            walk.fault = measured.fault
        if walk.fault != FAULT_NONE:
            _raise_fault(block, walk.fault)
        if walk.index < batch.record_count and walk.sizes.row_count < rows_max:
            return False
        block.settle()
        return True

    cdef bint _append_one(self, RecordBlock block, int64_t bytes_max) except -1:
        """Append the block's next record, made as an object; return False if it exceeds the limit.

        Such a record is kept in the block for the next call.
        """
        cdef ConsumerRecord record = block.next_record()
        cdef bint is_taken = False
        try:
            headers = [(key.encode(), value) for key, value in record.headers]
            is_taken = self._append_record(record, headers, bytes_max)
        finally:
            if not is_taken:
                block.kept = [record] + block.kept
        return is_taken

    cdef bint _append_record(
        self, ConsumerRecord record, list headers, int64_t bytes_max
    ) except -1:
        cdef RecordColumns* columns = &self._columns
        cdef RowSizes sizes
        cdef BatchRows rows
        rows.topic = self._topic_index(record.stamp.topic)
        rows.partition = record.stamp.partition
        rows.leader_epoch = record.epoch
        sizes.row_count = 1
        sizes.key_bytes = _size(record.key)
        sizes.value_bytes = _size(record.value)
        sizes.header_count = len(headers)
        sizes.header_key_bytes = sum([len(key) for key, _ in headers])
        sizes.header_value_bytes = sum([_size(value) for _, value in headers])
        if columns.row_count and content_bytes_of(&sizes) > bytes_max:
            return False
        self._reserve(&sizes)
        for key, value in headers:
            _put_object(&columns.header_key, key)
            _put_object(&columns.header_value, value)
        put_int32(&columns.header_ends, <int32_t>columns.header_key.length)
        _put_object(&columns.key, record.key)
        _put_object(&columns.value, record.value)
        put_numbers(columns, record.offset, record.timestamp_ms, record.time_type)
        put_common(columns, 1, &rows)
        return True

    cdef int _reserve(self, const RowSizes* sizes) except -1:
        if not reserve_rows(&self._columns, sizes):
            _raise_no_memory(sizes)
        return 0

    cdef int32_t _topic_index(self, str topic) except -1:
        """Return the index in the dictionary of topics, and add a new topic."""
        found = self._topics.get(topic)
        if found is None:
            name = topic.encode()
            if not reserve_bytes(&self._topic_names, 1, len(name)):
                raise MemoryError("no memory for the name of a topic")
            _put_object(&self._topic_names, name)
            found = self._topics[topic] = len(self._topics)
        return found


cdef int _raise_no_memory(const RowSizes* sizes) except -1:
    raise MemoryError(
        f"no memory for Arrow columns: rows {sizes.row_count}, bytes {content_bytes_of(sizes)}")


cdef int _raise_fault(RecordBlock block, int fault) except -1:
    """Raise the fault of the next record of the block."""
    try:
        if fault == FAULT_HEADER_TEXT:
            raise CorruptRecord("a header key is not UTF-8, which a column of text needs")
        if fault == FAULT_CHANGED:
            raise CorruptRecord("the record changed while it was read")
        block.records._raise(<Fault>fault)
    except CorruptRecord as error:
        raise corrupt_record(block.stamp, block.next_offset, error) from error
    return 0


cdef int64_t _size(object content) except -1:
    return 0 if content is None else len(content)


cdef int _put_object(BytesBuilder* column, object content) except -1:
    """Append bytes, a memoryview or None, for which there is room."""
    cdef BufferHold hold
    if content is None:
        put_bytes(column, NULL, -1)
    else:
        hold = BufferHold(content)
        put_bytes(column, hold.start, hold.size)
    return 0
