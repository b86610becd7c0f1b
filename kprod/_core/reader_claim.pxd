# cython: language_level=3
cimport cython


@cython.final
cdef class ReaderClaim:
    cdef object _check
    cdef object _leave
    cdef object _ident  # of the thread that made the call
    cdef public object holder  # None while no thread reads

    cpdef enter(self, call)
