# cython: language_level=3
"""A response to a fetch of one partition."""

from libc.stdint cimport int32_t, int64_t


cdef class LoneFetch:
    cdef readonly int64_t session_id
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly int64_t high_watermark
    cdef readonly int64_t last_stable_offset
    cdef readonly int64_t log_start_offset
    cdef readonly object records
