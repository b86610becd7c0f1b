# The types of activity.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class Activity:
    cdef public int64_t count
    cdef public bint is_waiting
    cdef public tuple _seen
    cdef public int64_t _since_ms
