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


cpdef LoneFetch read_lone_fetch(frame, int version)
cpdef bytes repeated_fetch_frame(
    bytes frame, Py_ssize_t opening_bytes, int32_t correlation_id, int32_t session_epoch,
    int64_t offset, int32_t last_epoch
)
