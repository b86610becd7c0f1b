# The types of connection_context.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod._core.timer.wheel cimport TimingWheel
from kprod.network.attempts cimport ConnectionAttempts
from kprod.network.epoll_selector cimport EpollSelector

cdef int64_t _CORRELATION_ID_MAX


cdef class ConnectionContext:
    cdef public object settings
    cdef public object security
    cdef public Py_ssize_t in_flight_max
    cdef public int64_t request_timeout_ms
    cdef public int64_t response_bytes_max
    cdef public object io
    cdef public EpollSelector epoll
    cdef public TimingWheel timer
    cdef public object rng
    cdef public object listener
    cdef public object recorder
    cdef public object client_id
    cdef public object state_log
    cdef public object completions
    cdef public object receive_buffer
    cdef public ConnectionAttempts attempts
    cdef public object logins
    cdef public object login_outcomes
    cdef public int64_t _correlation_id

    cpdef int64_t next_correlation_id(self) except -1
