# The types of response_wait.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.network.channel cimport Channel
from kprod.network.connection cimport NodeConnection
from kprod.network.in_flight cimport InFlightRequest, InFlightRequests


cdef class ResponseWait:
    cdef public InFlightRequest in_flight
    cdef public object _wakeup_fd
    cdef public bytearray _buffer
    cdef public Channel _channel
    cdef public NodeConnection _connection
    cdef public object _epoll
    cdef public NodeConnection _paused
    cdef public Channel _watched

    cpdef expect(self, NodeConnection connection)
    cpdef forget(self)

    @cython.locals(
        connection=NodeConnection, in_flight=InFlightRequest, requests=InFlightRequests
    )
    cpdef bint is_lone(self) except -1

    @cython.locals(connection=NodeConnection, channel=Channel)
    cpdef bint begin(self) except -1
    cpdef wait(self, double timeout_s)

    @cython.locals(channel=Channel, in_flight=InFlightRequest)
    cpdef object peek(self)

    @cython.locals(connection=NodeConnection, channel=Channel)
    cpdef take(self, object frame, int64_t now_ms)

    @cython.locals(paused=NodeConnection)
    cpdef end(self)
    cpdef _watch(self, object epoll, Channel channel)
