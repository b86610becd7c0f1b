from libc.stdint cimport int64_t

from kprod._core.json.json_buffer cimport JsonBuffer


cdef class JsonText:
    cdef JsonBuffer _buffer
