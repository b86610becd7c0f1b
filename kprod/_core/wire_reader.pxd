# cython: language_level=3
"""A position in bytes that do not move while it lives."""


cdef class Reader:
    cdef object source
    cdef const unsigned char *start
    cdef Py_ssize_t position
    cdef Py_ssize_t end
