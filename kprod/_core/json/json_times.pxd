from libc.stdint cimport int32_t, int64_t

from kprod._core.json.json_buffer cimport JsonBuffer

cdef enum:
    CACHED_SLOTS = 1024


# Offsets of a time zone from UTC, in seconds. Where `zone` is NULL, all are `fixed`.
cdef struct ZoneOffsets:
    void* zone
    int32_t fixed
    int64_t[CACHED_SLOTS] slots
    int32_t[CACHED_SLOTS] offsets


cdef int set_zone(ZoneOffsets* offsets, zone) except -1
cdef int put_date(JsonBuffer* text, int64_t day) except -1 nogil
cdef int put_instant(
    JsonBuffer* text, int64_t ms, ZoneOffsets* offsets
) except -1 nogil
