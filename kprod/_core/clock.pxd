from libc.stdint cimport int64_t

# A reading of the wall clock that calls in a row share; zeroed: none yet. For who holds the
# interpreter lock.
cdef struct SharedStamp:
    int64_t timestamp_ms
    # When it was read: by the wall clock, and by the kernel's last tick.
    int64_t read_ns
    int64_t tick_ns
    # How many may share it still, and how many have.
    int left_count
    int shared_count
    # Calls up to this reading that each came close upon the one before.
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
    # None: the machine's.
    cdef SystemClock _clock
    # −1: it never ends.
    cdef int64_t _ends_ns
    cdef int64_t _now_ns(self) noexcept
    cpdef double wait_s(self) noexcept
    cpdef bint is_over(self) noexcept


cdef class ManualClock(SystemClock):
    cdef int64_t _now_ns
    cdef int64_t _timestamp_ms
    # Since `_timestamp_ms` began: below a millisecond.
    cdef int64_t _wall_rest_ns
