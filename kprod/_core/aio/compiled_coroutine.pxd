cdef class CompiledCoroutine:
    cdef bint is_over
    cdef object advance(self)
    cdef int cancel(self) except -1


cdef object as_error(object kind, object error, object trace)
