from cpython.pythread cimport PyThread_type_lock


cdef class TurnLock:
    cdef PyThread_type_lock _lock
    cdef bint _is_held
    cpdef bint try_acquire(self) noexcept
    cpdef acquire(self)
    cpdef release(self)
