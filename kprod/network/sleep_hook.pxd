# The types of sleep_hook.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class SleepHook:
    cdef public int64_t sleep_max_ms

    cpdef before_sleep(self, int64_t until_ms)
    cpdef after_sleep(self)
    cpdef close(self)
