from libc.stdint cimport int64_t

# A reading of the wall clock that calls in a row share; all zero before the first reading. Access
# needs the GIL.
cdef struct SharedStamp:
    int64_t timestamp_ms
    # Time of the reading: by the wall clock, and by the kernel's last tick.
    int64_t read_ns
    int64_t tick_ns
    # Calls that may still share the reading, and calls that have.
    int left_count
    int shared_count
    # Calls up to this reading, each of which closely followed the one before.
    int row_count


cdef class SystemClock:
    cpdef int64_t now_ms(self) noexcept
    cpdef int64_t timestamp_ms(self) noexcept
    cpdef int64_t now_ns(self) noexcept
    cdef int64_t own_timestamp_ms(self, SharedStamp* stamp) noexcept
    cdef int64_t shared_timestamp_ms(self, SharedStamp* stamp) noexcept
    cdef int64_t _read_shared(self, SharedStamp* stamp, int64_t tick_ns) noexcept


cpdef double bounded_s(object timeout) except -1


cdef class Deadline:
    # None for the machine's clock.
    cdef SystemClock _clock
    # −1 for no end.
    cdef int64_t _ends_ns
    cdef int64_t _now_ns(self) noexcept
    cpdef double wait_s(self) noexcept
    cpdef bint is_over(self) noexcept


cdef class ManualClock(SystemClock):
    cdef int64_t _now_ns
    cdef int64_t _timestamp_ms
    # Since `_timestamp_ms` began: below a millisecond.
    cdef int64_t _wall_rest_ns
