# The types of connections.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.cluster.metadata cimport Metadata
from kprod.network.attempts cimport ConnectionAttempts
from kprod.network.connection cimport NodeConnection
from kprod.network.connection_context cimport ConnectionContext


cdef class Connections:
    cdef public dict by_node_id
    cdef public ConnectionContext _context
    cdef public Metadata _metadata

    @cython.locals(connection=NodeConnection)
    cpdef NodeConnection of(self, object node)

    @cython.locals(wait_ms=int64_t, attempts=ConnectionAttempts, connection=NodeConnection)
    cpdef int64_t connect_delay_ms(self, object node, int64_t now_ms) except -1

    @cython.locals(connection=NodeConnection)
    cpdef int64_t poll_delay_ms(self, object node, int64_t now_ms) except -1
