# The types of fetch_buffer.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class ResponseMemory:
    cdef public int64_t size_bytes
    cdef public int64_t in_use_bytes
    cdef public dict blocks


cdef class FetchedBlock:
    cdef public object partition
    cdef public int64_t number
    cdef public int64_t offset
    cdef public object records
    cdef public object aborted
    cdef public object memory


cdef class FetchedStep:
    cdef public object partition
    cdef public int64_t number
    cdef public object run


cdef class FetchBuffer:
    cdef public int64_t capacity_bytes
    cdef public int64_t held_bytes
    cdef public int64_t decoding_bytes
    cdef public object _arrived
    cdef public object _freed
    cdef public object _notify
