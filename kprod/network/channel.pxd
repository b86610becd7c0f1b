# The types of channel.py, which is compiled as it stands.

cimport cython

from kprod.network.framing cimport FrameReader
from kprod.network.outgoing cimport OutgoingFrame
from kprod.network.transport cimport PlainTransport

cdef Py_ssize_t _WRITE_BYTES_MAX
cdef Py_ssize_t _IOV_MAX


cdef class Channel:
    cdef public object transport
    cdef public PlainTransport _plain
    cdef public FrameReader reader
    cdef public object _failure
    cdef public object _outbox
    cdef public Py_ssize_t peeked_bytes

    cpdef bint is_busy(self) except -1

    @cython.locals(plain=PlainTransport)
    cpdef bint send(self, OutgoingFrame frame) except -1
    cpdef list receive(self, object buffer)
    cpdef list _feed(self, bytearray buffer, Py_ssize_t count_bytes)

    @cython.locals(plain=PlainTransport)
    cpdef object peek(self, bytearray buffer)

    @cython.locals(plain=PlainTransport)
    cpdef discard(self, Py_ssize_t count_bytes, bytearray buffer)

    @cython.locals(total_bytes=Py_ssize_t, start=Py_ssize_t)
    cpdef object _read_on(self, bytearray buffer, list frames)
