# cython: language_level=3
cimport cython


@cython.final
cdef class ReaderClaim:
    cdef object _check
    cdef object _holder  # None while no thread reads
