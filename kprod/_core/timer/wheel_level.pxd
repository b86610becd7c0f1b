from libc.stdint cimport int64_t

from kprod._core.timer.timer_task cimport Bucket


cdef enum:
    NEVER = -1  # the expiration of a bucket out of the queue


cdef class WheelLevel:
    cdef readonly int64_t tick_ms
    cdef readonly int64_t interval_ms
    cdef readonly int64_t current_ms
    cdef readonly int wheel_size
    cdef readonly WheelLevel overflow_wheel
    cdef Bucket* _buckets

    cdef Bucket* _bucket_for(self, int64_t expiration_ms) noexcept
    cdef void _move_to(self, int64_t now_ms) noexcept
    cdef void _cancel_all(self) noexcept
