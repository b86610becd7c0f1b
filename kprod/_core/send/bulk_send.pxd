from libc.stdint cimport int64_t

from kprod._core.send.send_path cimport SendPath
from kprod._core.record.batch_builder cimport RecordFields
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.send.bulk_columns cimport Column
from kprod._core.send.bulk_share cimport BatchShare
from kprod._core.send.partition_appender cimport PartitionAppender, AppendRequest, TopicRoutes
from kprod._core.send.bulk_account cimport BulkAccount


cdef class BulkCall:
    cdef SendPath _path
    cdef readonly TopicRoutes routes
    cdef readonly BulkAccount account
    cdef object _on_delivery
    cdef bint _has_serializers
    # This call's share of each partition's newest batch, or None.
    cdef list _shares
    # The lowest partition found missing.
    cdef int64_t _missing_from
    # The wall clock's time for the next records, and the number of records that it is valid for.
    cdef int64_t _stamp_ms
    cdef int _stamp_life
    # Signal handlers and other threads get a chance to run at this record.
    cdef int64_t _signal_check_at
    # If items may be slow to come: the monotonic time of the latest check for signals.
    cdef int64_t _signal_check_ms
    cdef bint _is_at_hand
    # Values only, with no step per record but the append.
    cdef bint _is_plain
    # An exception raised now concerns one record, not the call.
    cdef bint _is_checking
    cdef int _send_rows(self, Column values, list others) except -1
    cdef int _append_run(self, Column values) except -1
    cdef object _beside(self, Column column)
    cdef int _check_signals_in_turn(self) except -1
    cdef int _send(
        self, object value, object key, object headers, object partition, object timestamp_ms
    ) except -1
    cdef tuple _shown(self, tuple row)
    cdef Py_ssize_t _given_index(
        self, RecordFields* record, object partition, int64_t* waited_ms
    ) except -2
    cdef int64_t _now_ms(self) noexcept
    cdef int _put(
        self, Py_ssize_t index, RecordFields* record, object on_delivery, AppendRequest* request
    ) except -1
    cdef BatchShare _share_at(self, Py_ssize_t index)
    cdef int _open_share(self, PartitionAppender queue, BatchResult result) except -1
