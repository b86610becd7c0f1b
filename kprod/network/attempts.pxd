# The types of attempts.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t


cdef class _Failures:
    cdef public int64_t count
    cdef public bint has_lasted
    cdef public bint is_tried
    cdef public int64_t retry_at_ms
    cdef public int64_t usable_since_ms


cdef class ConnectionAttempts:
    cdef public object _backoff
    cdef public dict _known
    cdef public object _repeated_ms
    cdef public object _rng

    @cython.locals(known=_Failures, retry_at_ms=int64_t, is_free=cython.bint)
    cpdef int64_t wait_ms(self, object node, int64_t now_ms) except -1

    @cython.locals(known=_Failures, is_full=cython.bint, is_free=cython.bint)
    cpdef begin(self, object node, int64_t now_ms)

    @cython.locals(known=_Failures, since_ms=int64_t)
    cpdef int64_t fail(self, object node, int64_t retry_at_ms, int64_t now_ms) except -1

    @cython.locals(known=_Failures)
    cpdef succeed(self, object node, int64_t now_ms)
    cpdef forget(self, object node)
