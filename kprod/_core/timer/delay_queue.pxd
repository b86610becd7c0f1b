from libc.stdint cimport int64_t

from kprod._core.timer.timer_task cimport Bucket


cdef struct QueuedBucket:
    int64_t expiration_ms
    Bucket* bucket  # borrowed: its level lives as long as the queue


cdef class DelayQueue:
    cdef QueuedBucket* _heap
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity

    cdef int _reserve(self, Py_ssize_t bucket_count) except -1
    cdef void _offer(self, Bucket* bucket, int64_t expiration_ms) noexcept
    cdef void _remove_first(self) noexcept
