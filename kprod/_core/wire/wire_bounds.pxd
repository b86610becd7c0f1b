# cython: language_level=3
"""Limits under which a response is read, for the cursor and the reader."""

from libc.stdint cimport int64_t


cdef class Bounds:
    cdef readonly int64_t memory_bytes
    cdef readonly dict totals
    cdef readonly dict chosen
    cdef readonly dict element_bytes
    cdef readonly frozenset unread
