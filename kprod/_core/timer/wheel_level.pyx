# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""One level of a timing wheel: its buckets and its current time.

A level has `wheel_size` buckets of `tick_ms` each and covers that interval, starting from its
current time. Levels are a linked list; the tick of the next one is this level's whole interval.

Thread-safety: as the wheel that owns it.
Source: Kafka TimingWheel.java (server-common, 4.x).
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject, inquiry, traverseproc, visitproc
from libc.stdint cimport INT64_MAX, int64_t

from kprod._core.timer.timer_task cimport (
    BLOCK_TASKS,
    Bucket,
    TaskBlock,
    TimerTask,
    bucket_is_empty,
    tasks_in,
)


@cython.no_gc_clear
cdef class WheelLevel:
    """One wheel of the hierarchy: `wheel_size` buckets of `tick_ms`."""

    def __cinit__(self, int64_t tick_ms, int wheel_size, int64_t start_ms):
        cdef int index
        if tick_ms < 1 or wheel_size < 1 or start_ms < 0:
            raise ValueError(
                "a level has tick_ms and wheel_size of at least 1 and start_ms of at least 0, got"
                f" {tick_ms}, {wheel_size} and {start_ms}"
            )
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        # The highest level's interval exceeds an int64; it then covers all later times.
        self.interval_ms = INT64_MAX if tick_ms > INT64_MAX // wheel_size else tick_ms * wheel_size
        self.current_ms = start_ms - start_ms % tick_ms
        self._buckets = <Bucket*>PyMem_Calloc(wheel_size, sizeof(Bucket))
        if self._buckets == NULL:
            raise MemoryError("no memory for a level of a timing wheel")
        for index in range(wheel_size):
            self._buckets[index].expiration_ms = NEVER

    def __dealloc__(self):
        if self._buckets != NULL:
            self._cancel_all()
            PyMem_Free(self._buckets)

    cdef Bucket* _bucket_for(self, int64_t expiration_ms) noexcept:
        return &self._buckets[expiration_ms // self.tick_ms % self.wheel_size]

    cdef void _move_to(self, int64_t now_ms) noexcept:
        cdef WheelLevel level = self
        while level is not None and now_ms - level.current_ms >= level.tick_ms:
            level.current_ms = now_ms - now_ms % level.tick_ms
            level = level.overflow_wheel

    cdef void _cancel_all(self) noexcept:
        cdef Bucket* bucket
        cdef TimerTask task
        cdef int index
        for index in range(self.wheel_size):
            bucket = &self._buckets[index]
            while not bucket_is_empty(bucket):
                task = <TimerTask>bucket.last.tasks[bucket.last_count - 1]
                TimerTask.cancel(task)

    def occupied(self):
        """Return the buckets that are in the queue.

        Returns:
            For each its index, the time at which its range starts, and its number of tasks.
        """
        cdef list found = []
        cdef int index
        for index in range(self.wheel_size):
            if self._buckets[index].expiration_ms != NEVER:
                found.append((
                    index, self._buckets[index].expiration_ms, tasks_in(&self._buckets[index])
                ))
        return found


cdef traverseproc _traverse_fields = (<PyTypeObject*>WheelLevel).tp_traverse


cdef int _traverse_level(PyObject* level, visitproc visit, void* argument) noexcept:
    """Show the garbage collector the tasks of a level, which are hidden behind bare pointers."""
    cdef int stopped = _traverse_fields(level, visit, argument)
    cdef Bucket* buckets = (<WheelLevel>level)._buckets
    cdef TaskBlock* block
    cdef Py_ssize_t place, count
    cdef int index
    if stopped or buckets == NULL:
        return stopped
    for index in range((<WheelLevel>level).wheel_size):
        block = buckets[index].last
        count = buckets[index].last_count
        while block != NULL:
            for place in range(count):
                stopped = visit(<PyObject*>block.tasks[place], argument)
                if stopped:
                    return stopped
            block = block.previous if block.previous != buckets[index].last else NULL
            count = BLOCK_TASKS
    return 0


cdef int _clear_level(PyObject* level) noexcept:
    """Release the tasks of a level that is garbage."""
    (<WheelLevel>level)._cancel_all()
    return 0


# Every reference cycle through a wheel passes from a level or a list to a task, so that is where
# cycles are broken. The wheel and its levels stay whole until freed: the queue borrows buckets.
(<PyTypeObject*>WheelLevel).tp_traverse = <traverseproc>_traverse_level
(<PyTypeObject*>WheelLevel).tp_clear = <inquiry>_clear_level
