# One partition's part of a fetch response, and a cursor over its records.

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kprod._core.record.aborted_transactions cimport AbortedTransactions
from kprod._core.record.batch_reader cimport BatchReader, RecordBatch
from kprod._core.record.consumer_record cimport ConsumerRecord, PartitionStamp
from kprod._core.record.message_set_reader cimport Source
from kprod._core.record.record_fields cimport RecordFields
from kprod._core.record.record_iterator cimport RecordIterator


cdef class RecordBlock:
    cdef readonly PartitionStamp stamp
    # All records below this offset were taken or skipped.
    cdef readonly int64_t next_offset
    # Leader epoch of the newest batch that was opened or skipped.
    cdef readonly int32_t epoch
    # Bytes of the block, and of the batch that is decompressed now.
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t decompressed_size
    cdef bint _is_read
    # The block's bytes as batches (V2) and as messages (V0, V1); None once it is exhausted.
    cdef BatchReader _batches
    cdef Source _messages
    cdef object _decompress
    cdef Py_ssize_t _position
    # The open batch: its records, its last offset, and what all its records share.
    cdef RecordIterator records
    cdef int64_t _last_offset
    cdef int8_t time_type
    # The open message of an old format: rows that are left, and the next one.
    cdef object _rows
    cdef tuple row
    cdef Py_ssize_t _message_bytes
    # Contents as views of the memory that they lie in.
    cdef bint _as_views
    cdef object _view
    cdef const uint8_t* _view_start
    # None if records of aborted transactions are taken, too.
    cdef AbortedTransactions _aborted
    # Records that were made, but whose call failed.
    cdef list kept

    cdef int _begin(
        self, object data, PartitionStamp stamp, int64_t from_offset, bint check_crcs
    ) except -1
    cpdef bint is_exhausted(self) except -1
    cpdef list take(self, Py_ssize_t count)
    # Whether there is a next record: in `row` if that is not None, else the next one of `records`,
    # which may be below `next_offset`. False at the end of the block.
    cdef bint has_next(self) except -1
    # Open the next batch once the records of this one were read; a fault in it waits.
    cdef int settle(self) except -1
    cdef ConsumerRecord next_record(self)
    cdef bint _advance(self, RecordFields* fields) except -1
    cdef ConsumerRecord _make(self, const RecordFields* fields)
    cdef ConsumerRecord _make_from_row(self)
    cdef object _content(self, const uint8_t* start, int32_t length)
    cdef int _close_batch(self) except -1
    cdef bint _open_next(self) except -1
    cdef bint _open_checked(self) except -1
    cdef bint _finish(self) except -1
    cdef int _open_batch(self, RecordBatch batch) except -1
    cdef int _open_message(self) except -1
    cdef int _next_row(self) except -1
    cdef bint _passes_over(self, RecordBatch batch) except -1
    cdef int _pass_to(self, int64_t last_offset) except -1
    cdef int _raise_cut(self) except -1


cpdef RecordBlock open_record_block(
    object data, PartitionStamp stamp, int64_t from_offset, bint check_crcs, bint as_views
)
