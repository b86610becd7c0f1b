cdef class Steps:
    cdef bint is_over
    cdef object advance(self)
    cdef int forsake(self) except -1


cdef object as_error(object kind, object error, object trace)
