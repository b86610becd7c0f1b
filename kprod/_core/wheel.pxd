from libc.stdint cimport int64_t


cdef class TimerTask:
    cdef void* _prev  # a TimerTask; NULL when in no list
    cdef void* _next
    cdef void* _wheel  # the TimingWheel it waits in; NULL when in no list
    cdef int64_t _expiration_ms
    cdef readonly object callback

    cpdef bint cancel(self) noexcept
    cpdef object run(self)


cdef class TimerTaskList:
    cdef TimerTask _sentinel
    cdef int64_t _expiration_ms

    cdef bint _is_empty(self) noexcept
    cdef TimerTask _first(self)
    cdef void _append(self, TimerTask task) noexcept
    cdef void _cancel_all(self) noexcept


cdef struct QueuedBucket:
    int64_t expiration_ms
    void* bucket  # borrowed: its level lives as long as the queue


cdef class DelayQueue:
    cdef QueuedBucket* _heap
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity

    cdef int _reserve(self, Py_ssize_t bucket_count) except -1
    cdef void _offer(self, TimerTaskList bucket, int64_t expiration_ms) noexcept
    cdef void _remove_first(self) noexcept


cdef class WheelLevel:
    cdef readonly int64_t tick_ms
    cdef readonly int64_t interval_ms
    cdef readonly int64_t current_ms
    cdef readonly int wheel_size
    cdef readonly WheelLevel overflow_wheel
    cdef tuple _buckets

    cdef void _move_to(self, int64_t now_ms) noexcept


cdef class TimingWheel:
    cdef readonly int64_t now_ms
    cdef readonly int64_t tick_ms
    cdef readonly WheelLevel lowest
    cdef DelayQueue _queue
    cdef TimerTaskList _due
    cdef TimerTaskList _firing
    cdef Py_ssize_t _count
    cdef bint _is_firing

    cpdef TimerTask schedule(self, object delay_ms, object callback)
    cpdef int add(self, object delay_ms, TimerTask task) except -1
    cpdef int add_at(self, object deadline_ms, TimerTask task) except -1
    cdef int64_t _deadline_ms(self, object delay_ms) except -1
    cdef int _insert(self, int64_t deadline_ms, TimerTask task) except -1
    cdef WheelLevel _level_for(self, int64_t expiration_ms)
    cdef void _place(self, TimerTask task, WheelLevel level) noexcept
    cdef int _flush(self, TimerTaskList bucket) except -1
    cdef void _cancel_all(self) noexcept
