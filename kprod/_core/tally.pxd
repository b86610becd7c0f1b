from libc.stdint cimport int32_t, int64_t

from kprod._core.batch_result cimport BatchListener, BatchResult


cdef class BatchShare


cdef class SendTally:
    cdef readonly bint done
    # Records dealt with so far, and batches that took some of them; the sending thread's.
    cdef public int64_t record_count
    cdef int64_t opened_count
    # Batches settled, those whose callbacks have run, and how many more there are through splits.
    cdef int64_t _settled_count
    cdef int64_t _finished_count
    cdef int64_t _split_count
    cdef int64_t _failed_count
    cdef bint _sealed
    cdef bint _reported
    cdef dict _offsets
    cdef list _failed
    cdef list _refused
    cdef list _waiters
    cdef list _calls
    # Chain of shares whose outcome there was no memory to enter.
    cdef BatchShare _late
    cdef void count_settled(self, BatchShare share, BatchResult result) noexcept
    cdef void count_finished(self) noexcept
    cdef int _enter_late(self) except -1
    cdef int _enter(self, BatchShare share, BatchResult result) except -1
    cdef int _note_offsets(self, list ranges, BatchShare share, BatchResult result) except -1
    cdef void _end_if_settled(self) noexcept
    cdef void _report(self) noexcept
    cdef void forsake(self) noexcept


cdef class BatchShare(BatchListener):
    cdef readonly SendTally tally
    cdef readonly BatchResult result
    cdef readonly int32_t record_count
    # Spans of neighbours, encoded; then the one that still grows.
    cdef unsigned char* _memory
    cdef Py_ssize_t _size_bytes
    cdef Py_ssize_t _room_bytes
    cdef int32_t _index_end
    cdef int64_t _call_end
    cdef int32_t _first
    cdef int64_t _call_first
    cdef int32_t _length
    # How many parts it was given when its batch was split.
    cdef int32_t _part_count
    cdef BatchShare _later
    cdef bint reserve(self) noexcept nogil
    cdef void put(self, int32_t index, int64_t call_index) noexcept nogil
    cdef void put_run(self, int32_t index, int64_t call_index, int32_t count) noexcept nogil
    cdef void _end_span(self) noexcept nogil
    cdef int _add_span(self, int32_t first, int64_t call_first, int32_t length) except -1
    cdef list _spans(self)
    cdef void _drop_spans(self) noexcept
