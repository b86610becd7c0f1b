# The types of framing.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class FrameReader:
    cdef public int64_t bytes_max
    cdef public object error
    cdef public bytearray _head
    cdef public bytearray _partial
    cdef public Py_ssize_t _wanted

    cpdef list feed(self, object view)
    cpdef Py_ssize_t _begin(self, object view, Py_ssize_t position, list frames) except -1
    cpdef Py_ssize_t _fill(self, object view, Py_ssize_t position, list frames) except -1
    cpdef int64_t _checked(self, object head, object following) except? -1
