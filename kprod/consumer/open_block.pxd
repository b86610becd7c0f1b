# The types of open_block.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class OpenBlock:
    cdef public object fetched
    cdef public int64_t next_offset
    cdef public int64_t _start_offset
    cdef public int64_t epoch
    cdef public bint is_done
    cdef public object _terms
    cdef public object _block
    cdef public list _waiting
    cdef public list _ready
    cdef public dict _results
