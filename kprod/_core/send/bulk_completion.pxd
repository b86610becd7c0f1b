from libc.stdint cimport int64_t

from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult


cdef class BulkCompletion:
    cdef readonly bint done
    # Batches that took records; only the sending thread changes it.
    cdef int64_t opened_count
    # Settled batches, batches whose callbacks have run, and batches added by splits.
    cdef int64_t _settled_count
    cdef int64_t _finished_count
    cdef int64_t _split_count
    cdef bint _sealed
    cdef bint _reported
    cdef list _waiters
    cdef list _calls
    cdef void count_settled(self, BatchObserver share, BatchResult result) noexcept
    cdef void count_finished(self) noexcept
    cdef void _end_if_settled(self) noexcept
    cdef void _report(self) noexcept
    cdef void close_after_fork(self) noexcept
