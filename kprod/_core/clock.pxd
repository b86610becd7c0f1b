from libc.stdint cimport int64_t


cdef class SystemClock:
    cpdef int64_t now_ms(self) noexcept
    cpdef int64_t timestamp_ms(self) noexcept
    cpdef int64_t now_ns(self) noexcept


cdef class ManualClock(SystemClock):
    cdef int64_t _now_ns
    cdef int64_t _timestamp_ms
