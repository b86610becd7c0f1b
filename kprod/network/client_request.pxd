# The types of client_request.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod.network.outgoing cimport OutgoingFrame


cdef class Outcome:
    cdef readonly int64_t node_id
    cdef readonly int version
    cdef readonly bint was_written
    cdef readonly int64_t latency_ms
    cdef readonly int64_t now_ms
    cdef readonly object body
    cdef readonly object error


cdef class ClientRequest:
    cdef readonly object node_id
    cdef readonly object api_key
    cdef readonly object on_complete
    cdef readonly object body
    cdef readonly object versions
    cdef readonly bint expects_response
    cdef readonly object timeout_ms
    cdef readonly object bounds
    cdef readonly object check

    cpdef OutgoingFrame encode(self, int version, int64_t correlation_id, object client_id)
    cpdef object decode(self, int version, object frame)
    cpdef complete(self, Outcome outcome)
