# The types of node_state.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class NodeState:
    cdef public object current
    cdef public int64_t failures
    cdef public int64_t last_attempt_ms
    cdef public int64_t retry_at_ms
    cdef public int64_t throttled_until_ms
    cdef public int64_t send_until_ms
    cdef public int64_t _setup_failures
    cdef public object _rng
    cdef public object _reconnect_backoff
    cdef public object _rejection_backoff
    cdef public object _setup_timeout

    cpdef bint sends(self, int64_t now_ms) except -1
