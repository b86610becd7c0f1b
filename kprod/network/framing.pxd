# The types of framing.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t


cdef class FrameReader:
    cdef public int64_t bytes_max
    cdef public object error
    cdef public bytearray _head
    cdef public bytearray _partial
    cdef public Py_ssize_t filled_bytes
    cdef public Py_ssize_t _wanted

    cpdef object whole_frame(self, bytearray buffer, Py_ssize_t count_bytes)
    cpdef list feed(self, object view)
    cpdef bytearray make_room(self)
    cpdef object fill(self, Py_ssize_t count_bytes)

    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, length=int64_t)
    cpdef Py_ssize_t _begin(self, object view, Py_ssize_t position, list frames) except -1
    cpdef Py_ssize_t _fill(self, object view, Py_ssize_t position, list frames) except -1
    cpdef bint _fits(self, int64_t length) except -1
