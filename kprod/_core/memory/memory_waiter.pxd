from libc.stdint cimport int64_t


cdef class MemoryWaiter:
    cdef readonly Py_ssize_t chunk_count
    cdef readonly bint large
    cdef readonly int64_t wanted_bytes
    cdef readonly int64_t granted_bytes
    cdef readonly bint settled
    cdef readonly bint closed
    cdef object _lock
    cdef int settle(self, bint closed) except -1
    cdef int wake(self) except -1
    cdef bint is_away(self) except -1


# `settled` may be None.
cdef int wake_waiters(list settled) except -1
