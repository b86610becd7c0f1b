# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The queue of a timing wheel's buckets, ordered by the time at which each expires.

A binary heap. It holds buckets and not tasks, so it has tens of entries, not millions. A bucket
enters it when its expiration changes, never when a task is added, so each is in it at most once and
the heap never outgrows the number of buckets. It borrows the buckets: their wheel keeps them alive
for as long as the queue.

Complexity: offer and remove O(log buckets).
Thread-safety: as the wheel that owns it.
Source: Kafka SystemTimer.java (server-common, 4.x), which uses `java.util.concurrent.DelayQueue`.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from kprod._core.timer.timer_task cimport Bucket


cdef class DelayQueue:
    """A heap of buckets by expiration, each at most once, so it never outgrows their number."""

    def __dealloc__(self):
        free(self._heap)

    cdef int _reserve(self, Py_ssize_t bucket_count) except -1:
        """Allocate space for that many more buckets, so that `_offer` cannot fail."""
        cdef Py_ssize_t capacity = self._capacity + bucket_count
        cdef void* grown = realloc(self._heap, capacity * sizeof(QueuedBucket))
        if grown == NULL:
            raise MemoryError
        self._heap = <QueuedBucket*>grown
        self._capacity = capacity
        return 0

    cdef void _offer(self, Bucket* bucket, int64_t expiration_ms) noexcept:
        cdef QueuedBucket* heap = self._heap
        cdef Py_ssize_t position = self._size, parent
        self._size += 1
        while position > 0:
            parent = (position - 1) >> 1
            if heap[parent].expiration_ms <= expiration_ms:
                break
            heap[position] = heap[parent]
            position = parent
        heap[position].expiration_ms = expiration_ms
        heap[position].bucket = bucket

    cdef void _remove_first(self) noexcept:
        cdef QueuedBucket* heap = self._heap
        cdef Py_ssize_t position = 0, child = 1, size = self._size - 1
        cdef QueuedBucket last = heap[size]
        self._size = size
        while child < size:
            if child + 1 < size and heap[child + 1].expiration_ms < heap[child].expiration_ms:
                child += 1
            if last.expiration_ms <= heap[child].expiration_ms:
                break
            heap[position] = heap[child]
            position = child
            child = 2 * position + 1
        heap[position] = last
