# The types of in_flight.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod.network.outgoing cimport OutgoingFrame
from kprod.network.client_request cimport ClientRequest, Outcome


cdef class InFlightRequest:
    cdef public ClientRequest request
    cdef public OutgoingFrame frame
    cdef public int version
    cdef public int64_t correlation_id
    cdef public int64_t sent_at_ms
    cdef public int64_t deadline_ms
    cdef public object timeout

    cpdef Outcome outcome(self, object node_id, int64_t now_ms, object body, object error)
    cpdef cancel_timeout(self)


cdef class InFlightRequests:
    cdef public object _requests

    cpdef add(self, InFlightRequest request)
    cpdef bint is_oldest(self, InFlightRequest request) except -1
    cpdef bint is_only(self, InFlightRequest request) except -1
    cpdef bint has_room(self, Py_ssize_t count_max) except -1
    cpdef InFlightRequest oldest(self, int64_t correlation_id)
    cpdef complete_oldest(self)
