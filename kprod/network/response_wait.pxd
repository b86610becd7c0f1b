# The types of response_wait.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.network.channel cimport Channel
from kprod.network.connection cimport NodeConnection
from kprod.network.in_flight cimport InFlightRequest
from kprod.network.socket_wait cimport SocketWait

cdef int _NONE
cdef int _READ
cdef Py_ssize_t _PREFIX_BYTES


cdef class ResponseWait:
    cdef public InFlightRequest in_flight
    cdef public int64_t response_bytes_max
    cdef public bytearray _buffer
    cdef public Channel _channel
    cdef public NodeConnection connection
    cdef public NodeConnection _paused
    cdef public SocketWait _socket_wait

    cpdef set_request(self, NodeConnection connection)
    cpdef clear_request(self)

    @cython.locals(connection=NodeConnection, in_flight=InFlightRequest)
    cpdef bint is_only_in_flight(self) except -1

    @cython.locals(connection=NodeConnection, channel=Channel, socket_wait=SocketWait)
    cpdef bint pause_selector(self) except -1

    @cython.locals(socket_wait=SocketWait)
    cpdef wait(self, double timeout_s)

    @cython.locals(channel=Channel, in_flight=InFlightRequest)
    cpdef object peek(self)

    @cython.locals(channel=Channel)
    cpdef int64_t arrived_bytes(self) except? -2

    @cython.locals(channel=Channel)
    cpdef discard(self, object frame)

    @cython.locals(connection=NodeConnection, channel=Channel)
    cpdef take_response(self, object frame, int64_t now_ms)

    @cython.locals(paused=NodeConnection)
    cpdef resume_selector(self)

    @cython.locals(connection=NodeConnection, channel=Channel)
    cpdef bint hand_over(self) except -1
