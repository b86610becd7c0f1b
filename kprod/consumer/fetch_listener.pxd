# The types of fetch_listener.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class FetchCounts:
    cdef public int64_t fetch_count
    cdef public int64_t bytes_total
    cdef public int64_t latency_ms_total
    cdef public int64_t latency_ms_max

    cpdef note(self, int64_t latency_ms)
