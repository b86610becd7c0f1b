# The types of position.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t


cdef class Start:
    cdef readonly int64_t number
    cdef readonly object offset
    cdef readonly int64_t epoch
    cdef readonly object policy
    cdef readonly str reason
    cdef readonly bint asks_group


cdef class Place:
    cdef readonly int64_t number
    cdef readonly int64_t offset
    cdef readonly int64_t epoch


@cython.locals(place=Place)
cpdef Place new_place(int64_t number, int64_t offset, int64_t epoch)


cdef class AssignedPartition:
    cdef public object key
    cdef public object stamp
    cdef public Start start
    cdef public Place handed
    cdef public bint paused
    cdef public object stored
    cdef public int64_t consumed_count
    cdef public object state
    cdef public int64_t number
    cdef public int64_t fetch_offset
    cdef public int64_t fetch_epoch
    cdef public int64_t leader_epoch
    cdef public Place resolved
    cdef public int64_t fetched_count
    cdef public int64_t retry_at_ms
    cdef public int64_t failures
    cdef public int64_t high_watermark
    cdef public int64_t last_stable_offset
    cdef public int64_t log_start_offset
    cdef public int64_t cut_off_count

    cpdef move_to(self, object state)
    cpdef fetch_from(self, int64_t offset, int64_t epoch)
    cpdef note_fetched(
        self, int64_t high_watermark, int64_t last_stable_offset, int64_t log_start_offset
    )
