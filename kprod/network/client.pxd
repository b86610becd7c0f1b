# The types of client.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.clock cimport SystemClock
from kprod._core.timer.wheel cimport TimingWheel
from kprod.cluster.metadata cimport Metadata
from kprod.network.connection cimport NodeConnection
from kprod.network.connections cimport Connections
from kprod.network.client_request cimport ClientRequest
from kprod.network.connection_context cimport ConnectionContext
from kprod.network.sleep_hook cimport SleepHook


cdef class NetworkClient:
    cdef public ConnectionContext _context
    cdef public SystemClock _clock
    cdef public bint _closed
    cdef public Metadata _metadata
    cdef public int64_t _now_ms
    cdef public object _rebootstraps
    cdef public object _recorder
    cdef public object _seen_snapshot
    cdef public object _trouble
    cdef public object _updater
    cdef public Connections connections
    cdef public SleepHook direct_path

    @cython.locals(connection=NodeConnection)
    cpdef bint ready(self, object node, int64_t now_ms) except -1

    @cython.locals(connection=NodeConnection)
    cpdef bint is_ready(self, object node_id, int64_t now_ms) except -1

    @cython.locals(connection=NodeConnection)
    cpdef NodeConnection idle_connection(self, object node_id, int64_t now_ms)

    cpdef bint has_completions(self) except -1

    @cython.locals(connection=NodeConnection)
    cpdef send(self, ClientRequest request, int64_t now_ms)

    @cython.locals(sleep_ms=int64_t, connection=NodeConnection)
    cpdef poll(self, int64_t timeout_ms, int64_t now_ms)

    @cython.locals(now_ms=int64_t, timer=TimingWheel)
    cpdef catch_up(self)
    cpdef int64_t _read_clock(self) except -1

    @cython.locals(now_ms=int64_t, connection=NodeConnection)
    cpdef _serve(self, list ready)

    @cython.locals(direct_path=SleepHook)
    cpdef list _sleep(self, int64_t sleep_ms)

    @cython.locals(now_ms=int64_t, due_in_ms=int64_t, sleep_ms=int64_t)
    cpdef int64_t _sleep_ms(self, int64_t timeout_ms) except -1

    @cython.locals(request=ClientRequest)
    cpdef fire_completions(self)
