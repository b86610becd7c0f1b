from libc.stdint cimport int32_t, int64_t

from kprod._core.clock cimport SystemClock


cdef enum:
    LATENCY_BUCKETS = 160


cdef class ProducerCounters:
    cdef int64_t _latencies[LATENCY_BUCKETS]
    cdef public int64_t batches
    cdef public int64_t records
    cdef public int64_t plain_bytes
    cdef public int64_t encoded_bytes
    cdef public int64_t queued_ms
    cdef public int64_t produce_requests
    cdef public int64_t answers
    cdef public int64_t latency_ms
    cdef public int64_t throttled_ms
    cdef public int64_t retried_records
    cdef public int64_t failed_records
    cdef public int64_t splits
    cdef public int64_t requests
    cdef public int64_t request_bytes
    cdef public int64_t responses
    cdef public int64_t response_bytes
    cdef public int64_t connections_made
    cdef public int64_t connections_closed
    cdef public int64_t logins
    cdef public int64_t failed_logins
    cdef public int64_t logins_again
    cdef public int64_t failed_logins_again
    cdef public int64_t login_again_ms
    cdef public int64_t selects
    cdef public int64_t waited_ns
    cdef public int64_t served_ns
    cdef public int64_t queued_ms_max
    cdef public int64_t encoded_bytes_max
    cdef public int64_t latency_ms_max
    cdef public int64_t throttled_ms_max
    cdef public int64_t request_bytes_max
    cdef public int64_t login_again_ms_max


cdef class TopicCounters:
    cdef public int64_t records
    cdef public int64_t plain_bytes
    cdef public int64_t encoded_bytes
    cdef public int64_t retried_records
    cdef public int64_t failed_records


cdef class NodeCounters:
    cdef public int64_t requests
    cdef public int64_t request_bytes
    cdef public int64_t responses
    cdef public int64_t response_bytes
    cdef public int64_t answers
    cdef public int64_t latency_ms
    cdef public int64_t latency_ms_max
    cdef public int64_t request_bytes_max


cdef class CallerCounters:
    cdef public int64_t memory_waits_ns
    cdef public int64_t rejected_for_memory
    cdef public int64_t metadata_waits_ns
    cdef public int64_t flushes_ns


cdef class Counting:
    cdef readonly ProducerCounters producer
    cdef readonly CallerCounters callers
    cdef readonly dict topics
    cdef readonly dict nodes
    cdef SystemClock _clock
    cdef int64_t _turns_at_ms
    cdef int64_t _asleep_ns
    cdef int64_t _awake_ns
    cdef TopicCounters _topic(self, str name)
    cdef NodeCounters _node(self, object node_id)


cdef class NotCounting:
    pass
