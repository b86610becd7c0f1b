# cython: language_level=3
"""A position in bytes that do not move while it lives, and what may be made of them."""

from libc.stdint cimport int64_t


cdef class Bounds:
    cdef readonly int64_t memory_bytes
    cdef readonly dict totals
    cdef readonly dict chosen
    cdef readonly dict element_bytes
    cdef readonly frozenset unread


cdef class Reader:
    cdef object source
    cdef const unsigned char *start
    cdef Py_ssize_t position
    cdef Py_ssize_t end
    cdef Bounds bounds
    cdef int64_t memory_left
    cdef dict counts
    cdef list integers
    cdef list shared
