# The types of hand_over.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class HandOver:
    cdef public object _buffer
    cdef public object _terms
    cdef public object _assignment
    cdef public object _on_freed
    cdef public object _ready
    cdef public object _parked
    cdef public list _touched
    cdef public int64_t _taken_count
    cdef public int64_t _settled_count
    cdef public int64_t _interrupt_count
    cdef public int64_t _taken_at
    cdef public object chunk
    cdef public bint is_complete
