from libc.stdint cimport int64_t

from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult
from kprod._core.send.bulk_completion cimport BulkCompletion
from kprod._core.send.bulk_share cimport BatchShare


cdef class BulkAccount(BulkCompletion):
    # Records handled so far; only the sending thread changes it.
    cdef public int64_t record_count
    cdef int64_t _failed_count
    cdef dict _offsets
    cdef list _failed
    cdef list _rejected
    # Chain of shares whose outcome could not be entered for lack of memory.
    cdef BatchShare _late
    cdef int _enter_late(self) except -1
    cdef int _enter(self, BatchShare share, BatchResult result) except -1
    cdef int _note_offsets(self, list ranges, BatchShare share, BatchResult result) except -1
