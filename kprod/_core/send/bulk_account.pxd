from libc.stdint cimport int64_t

from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult
from kprod._core.send.bulk_completion cimport BulkCompletion
from kprod._core.send.bulk_share cimport BatchShare


cdef class BulkAccount(BulkCompletion):
    # Records dealt with so far; the sending thread's.
    cdef public int64_t record_count
    cdef int64_t _failed_count
    cdef dict _offsets
    cdef list _failed
    cdef list _rejected
    # Chain of shares whose outcome there was no memory to enter.
    cdef BatchShare _late
    cdef int _enter_late(self) except -1
    cdef int _enter(self, BatchShare share, BatchResult result) except -1
    cdef int _note_offsets(self, list ranges, BatchShare share, BatchResult result) except -1
