from libc.stdint cimport int32_t, int64_t

from kprod._core.outcome.batch_result cimport BatchResult


cdef class RecordFuture:
    # The result of the batch to which the record was appended, and its index there; both final.
    cdef BatchResult _result
    cdef int64_t _timestamp_ms
    cdef int32_t _index
    cdef int32_t _key_bytes
    cdef int32_t _value_bytes
    cdef object _on_delivery
    cdef BatchResult _settled_by(self)
    cdef object _metadata(self, BatchResult result)
    cdef object _error(self, BatchResult result)
    cdef BatchResult _outcome(self, object timeout)
    cdef BatchResult _wait(self, BatchResult result, object timeout)


cdef int call_back(object entry) except -1
