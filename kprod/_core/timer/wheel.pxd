from libc.stdint cimport int64_t

from kprod._core.timer.delay_queue cimport DelayQueue
from kprod._core.timer.timer_task cimport Bucket, TimerTask, TimerTaskList
from kprod._core.timer.wheel_level cimport WheelLevel


cdef class TimingWheel:
    cdef readonly int64_t now_ms
    cdef readonly int64_t tick_ms
    cdef readonly WheelLevel lowest
    cdef DelayQueue _queue
    cdef TimerTaskList _due
    cdef TimerTaskList _firing
    cdef Py_ssize_t _count
    cdef bint _is_firing

    cpdef bint is_due(self, int64_t now_ms) except -1
    cpdef TimerTask schedule(self, object delay_ms, object callback)
    cpdef int add(self, object delay_ms, TimerTask task) except -1
    cpdef int add_at(self, object deadline_ms, TimerTask task) except -1
    cdef int64_t _deadline_ms(self, object delay_ms) except -1
    cdef int _insert(self, int64_t deadline_ms, TimerTask task) except -1
    cdef WheelLevel _level_for(self, int64_t expiration_ms)
    cdef void _maybe_offer(self, Bucket* bucket, WheelLevel level, int64_t expiration_ms) noexcept
    cdef int _flush(self, Bucket* bucket) except -1
    cdef int _spread(self, TimerTask task) except -1
    cdef void _cancel_all(self) noexcept
