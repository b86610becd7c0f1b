# The types of connection.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.network.channel cimport Channel
from kprod.network.in_flight cimport InFlightRequest, InFlightRequests
from kprod.network.node_state cimport NodeState
from kprod.network.outgoing cimport OutgoingFrame
from kprod.network.request_deadlines cimport RequestDeadlines
from kprod.network.client_request cimport ClientRequest
from kprod.network.connection_context cimport ConnectionContext
from kprod.network.epoll_selector cimport EpollSelector

cdef int _READ
cdef Py_ssize_t _PREFIX_BYTES


cdef class NodeConnection:
    cdef public object node
    cdef public NodeState state
    cdef public InFlightRequests requests
    cdef public object features
    cdef public ConnectionContext _context
    cdef public object _setup
    cdef public object _session
    cdef public Channel channel
    cdef readonly int events
    cdef public RequestDeadlines _deadlines
    cdef public object _idle_timeout
    cdef public object _log
    cdef public int64_t _last_active_ms

    cpdef bint can_send(self, int64_t now_ms) except -1
    cpdef serve(self, int events, int64_t now_ms)

    @cython.locals(in_flight=InFlightRequest)
    cpdef send(self, ClientRequest request, int version, int64_t now_ms)
    cpdef int64_t next_correlation_id(self) except -1
    cpdef send_again(
        self, InFlightRequest in_flight, bytes frame, int64_t number, int64_t now_ms
    )
    cpdef count_response(self, object frame)
    cpdef _take_events(self, Channel channel, int events, int64_t now_ms)

    @cython.locals(newest=InFlightRequest)
    cpdef _note_written(self, Channel channel, int64_t now_ms)
    cpdef watch_channel(self, Channel channel)

    @cython.locals(channel=Channel, epoll=EpollSelector)
    cpdef watch(self, int events)
    cpdef _receive(self, Channel channel, int64_t now_ms)

    @cython.locals(in_flight=InFlightRequest, version=int, body_offset=Py_ssize_t)
    cpdef take_frame(self, object frame, int64_t now_ms)
    cpdef _complete(
        self, InFlightRequest in_flight, int64_t now_ms, object body=*, object error=*
    )
