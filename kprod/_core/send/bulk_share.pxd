from libc.stdint cimport int32_t, int64_t

from kprod._core.send.bulk_completion cimport BulkCompletion
from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult


cdef class BatchShare(BatchObserver):
    cdef readonly BulkCompletion account
    cdef readonly BatchResult result
    cdef readonly int32_t record_count
    # Spans of consecutive records, encoded; then the span that still grows.
    cdef unsigned char* _memory
    cdef Py_ssize_t _size_bytes
    cdef Py_ssize_t _room_bytes
    cdef int32_t _index_end
    cdef int64_t _call_end
    cdef int32_t _first
    cdef int64_t _call_first
    cdef int32_t _length
    # Number of parts with records of this share, after its batch was split.
    cdef int32_t _part_count
    cdef BatchShare _later
    cdef bint reserve(self) noexcept nogil
    cdef void put(self, int32_t index, int64_t call_index) noexcept nogil
    cdef void put_run(self, int32_t index, int64_t call_index, int32_t count) noexcept nogil
    cdef void _end_span(self) noexcept nogil
    cdef int _add_span(self, int32_t first, int64_t call_first, int32_t length) except -1
    cdef list _spans(self)
    cdef void _drop_spans(self) noexcept
