# The types of channel.py, which is compiled as it stands.

from kprod.network.framing cimport FrameReader
from kprod.network.outgoing cimport OutgoingFrame


cdef class Channel:
    cdef public object transport
    cdef public FrameReader reader
    cdef public object _failure
    cdef public object _outbox

    cpdef bint send(self, OutgoingFrame frame) except -1
    cpdef list receive(self, object buffer)
    cpdef object peek(self, bytearray buffer)
