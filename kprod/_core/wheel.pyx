# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The hierarchical timing wheel: deadlines that are added and cancelled in O(1), at once.

Why a wheel. Most deadlines of a client are cancelled, not met. A heap pays O(log n) to insert and
keeps what was cancelled until it comes up; a bucket that is a linked list forgets it at once.

How. The lowest level has `wheel_size` buckets of one tick. What lies beyond its interval goes to an
overflow level, made when first needed, whose tick is that whole interval. A bucket that holds
something stands in a heap by the instant at which its range starts, so the heap has tens of
entries, not millions. When the bucket of a higher level comes up, what it holds is spread over the
lower ones.

The entry is the task: being in a list costs no memory of its own, and `cancel` needs no search.
Links are bare pointers, and the list owns a reference to each task: to unlink one then writes to
its neighbours without reading them, which is what counts when a million wait. The list shows its
tasks to the cycle collector itself, so a wheel that was dropped with tasks in it is freed.

Invariants.
    A task is in exactly one list (a bucket, the due list, the firing list), or in none.
    `len(wheel)` is the number of tasks in lists; they point to the wheel, the others to none.
    A bucket stands in the queue at most once: when its expiration changes, never when it fills.
    Every bucket in the queue expires after each level's current time.
    Expirations are whole ticks, rounded up, so that nothing fires early.

Complexity: add O(levels), cancel O(1), advance O(due buckets + tasks in them).
Thread-safety: under the interpreter lock; no method lets go of it half way, except `fire`, between
tasks. One owner advances and fires.
Source: G. Varghese, A. Lauck, "Hashed and Hierarchical Timing Wheels" (1987); Kafka's
TimingWheel.java, TimerTaskList.java and SystemTimer.java (server-common, 4.x) for the rules,
without their locks.
"""

cimport cython
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject, PyTypeObject, inquiry, traverseproc, visitproc
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, realloc

cdef extern from *:
    """
    /* A cancelled task is mostly dropped next, and then leaves the collector's list, whose two
       neighbours are as far away in memory as those in the bucket. Asked for early, all four come
       together. Only a hint: a wrong address costs nothing. */
    #if defined(__GNUC__) && !defined(Py_GIL_DISABLED)
    static inline void kprod_prefetch_collector_links(PyObject *tracked) {
        const Py_uintptr_t *head = (const Py_uintptr_t *)tracked - 2;
        __builtin_prefetch((const void *)head[0], 1);
        __builtin_prefetch((const void *)(head[1] & ~(Py_uintptr_t)3), 1);
    }
    #else
    #define kprod_prefetch_collector_links(tracked) ((void)0)
    #endif
    """
    void _prefetch_collector_links "kprod_prefetch_collector_links"(object tracked) noexcept

cdef enum:
    NEVER = -1  # the expiration of a bucket out of the queue, and of a task never added


@cython.freelist(256)
cdef class TimerTask:
    """Something to run when its time has come; it may be added again after it ran or was cancelled.

    A subclass may override `run` instead of giving a callback.

    Args:
        callback: Called without arguments; its result is ignored.

    Thread-safety: under the interpreter lock; in a `SystemTimer` any thread may cancel.
    """

    def __cinit__(self):
        self._expiration_ms = NEVER

    def __init__(self, callback):
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__}")
        self.callback = callback

    @property
    def pending(self):
        """Whether the task waits in a timer."""
        return self._next != NULL

    @property
    def expiration_ms(self):
        """When it fires or fired, monotonic milliseconds, a whole tick; −1 if never added."""
        return self._expiration_ms

    cpdef bint cancel(self) noexcept:
        """Take the task out of its timer, at once; a task that does not wait is left as it is.

        Returns:
            Whether it was pending.
        """
        if self._next == NULL:
            return False
        _prefetch_collector_links(self)
        (<TimingWheel>self._wheel)._count -= 1
        self._wheel = NULL
        _unlink(self)
        Py_DECREF(self)  # the list's reference; the caller has its own
        return True

    cpdef object run(self):
        """Call the callback."""
        return self.callback()


cdef inline void _unlink(TimerTask task) noexcept:
    # Nothing of the neighbours is read, so their cache misses keep nobody waiting.
    (<TimerTask>task._prev)._next = task._next
    (<TimerTask>task._next)._prev = task._prev
    task._prev = NULL
    task._next = NULL


@cython.no_gc_clear
cdef class TimerTaskList:
    """A bucket: a list of tasks around a sentinel, and the instant at which its range starts.

    The list owns one reference to each of its tasks; their links are bare pointers.
    """

    def __cinit__(self):
        cdef TimerTask sentinel = TimerTask.__new__(TimerTask)
        sentinel._prev = <void*>sentinel
        sentinel._next = <void*>sentinel
        self._sentinel = sentinel
        self._expiration_ms = NEVER

    def __dealloc__(self):
        if self._sentinel is not None:
            self._cancel_all()
            self._sentinel._next = NULL

    cdef bint _is_empty(self) noexcept:
        return self._sentinel._next == <void*>self._sentinel

    cdef TimerTask _first(self):
        return <TimerTask>self._sentinel._next

    cdef void _append(self, TimerTask task) noexcept:
        """Link a task that is in no list; the caller hands over a reference."""
        cdef TimerTask sentinel = self._sentinel
        task._prev = sentinel._prev
        task._next = <void*>sentinel
        (<TimerTask>sentinel._prev)._next = <void*>task
        sentinel._prev = <void*>task

    cdef void _cancel_all(self) noexcept:
        cdef TimerTask task
        while not self._is_empty():
            task = self._first()
            task.cancel()


cdef traverseproc _traverse_fields = (<PyTypeObject*>TimerTaskList).tp_traverse


cdef int _traverse_list(PyObject* tasks, visitproc visit, void* argument) noexcept:
    """Show the collector the tasks of a list, which its bare pointers hide."""
    cdef TimerTask sentinel = (<TimerTaskList>tasks)._sentinel
    cdef int stopped = _traverse_fields(tasks, visit, argument)
    cdef void* linked
    if stopped or sentinel is None:
        return stopped
    linked = sentinel._next
    while linked != <void*>sentinel:
        stopped = visit(<PyObject*>linked, argument)
        if stopped:
            return stopped
        linked = (<TimerTask>linked)._next
    return 0


cdef int _clear_list(PyObject* tasks) noexcept:
    """Let go of the tasks of a list that is garbage."""
    (<TimerTaskList>tasks)._cancel_all()
    return 0


# Every cycle through a wheel passes from a list to a task, so this is where cycles are cut. The
# wheel, its levels and their buckets stay whole until they are freed: the queue borrows from them.
(<PyTypeObject*>TimerTaskList).tp_traverse = <traverseproc>_traverse_list
(<PyTypeObject*>TimerTaskList).tp_clear = <inquiry>_clear_list


cdef class DelayQueue:
    """A heap of buckets by expiration, each at most once, so it never outgrows their number."""

    def __dealloc__(self):
        free(self._heap)

    cdef int _reserve(self, Py_ssize_t bucket_count) except -1:
        """Make room for that many more buckets, so that `_offer` cannot fail."""
        cdef Py_ssize_t capacity = self._capacity + bucket_count
        cdef void* grown = realloc(self._heap, capacity * sizeof(QueuedBucket))
        if grown == NULL:
            raise MemoryError
        self._heap = <QueuedBucket*>grown
        self._capacity = capacity
        return 0

    cdef void _offer(self, TimerTaskList bucket, int64_t expiration_ms) noexcept:
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
        heap[position].bucket = <void*>bucket

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


@cython.no_gc_clear
cdef class WheelLevel:
    """One wheel of the hierarchy: `wheel_size` buckets of `tick_ms`."""

    def __cinit__(self, int64_t tick_ms, int wheel_size, int64_t start_ms):
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        # The highest level's interval is more than an int64 can say; it then holds all there is.
        self.interval_ms = INT64_MAX if tick_ms > INT64_MAX // wheel_size else tick_ms * wheel_size
        self.current_ms = start_ms - start_ms % tick_ms
        self._buckets = tuple([TimerTaskList() for _ in range(wheel_size)])

    cdef void _move_to(self, int64_t now_ms) noexcept:
        cdef WheelLevel level = self
        while level is not None and now_ms - level.current_ms >= level.tick_ms:
            level.current_ms = now_ms - now_ms % level.tick_ms
            level = level.overflow_wheel

    def occupied(self):
        """The buckets that stand in the queue.

        Returns:
            For each its index, the instant at which its range starts, and how many tasks it holds.
        """
        cdef list found = []
        cdef TimerTaskList bucket
        cdef void* linked
        for index, each in enumerate(self._buckets):
            bucket = <TimerTaskList>each
            if bucket._expiration_ms == NEVER:
                continue
            count = 0
            linked = bucket._sentinel._next
            while linked != <void*>bucket._sentinel:
                count += 1
                linked = (<TimerTask>linked)._next
            found.append((index, bucket._expiration_ms, count))
        return found


@cython.no_gc_clear
cdef class TimingWheel:
    """All levels, the queue of their buckets, and the tasks that are due.

    Args:
        now_ms: Monotonic milliseconds; 0 ≤ now_ms.
        tick_ms: Width of the lowest level's buckets; at least 1.
        wheel_size: Buckets a level; at least 2.

    Raises:
        ValueError: An argument is out of its range.

    Thread-safety: see the module.
    """

    def __init__(self, now_ms, *, tick_ms=1, wheel_size=20):
        if not 0 <= now_ms < INT64_MAX:
            raise ValueError(f"a timer starts at 0 <= now_ms < {INT64_MAX}, got {now_ms}")
        if not 1 <= tick_ms <= 86_400_000:
            raise ValueError(f"tick_ms must be from 1 to 86400000 (a day), got {tick_ms}")
        if not 2 <= wheel_size <= 65_536:
            raise ValueError(f"wheel_size must be from 2 to 65536, got {wheel_size}")
        self.now_ms = now_ms
        self.tick_ms = tick_ms
        self._queue = DelayQueue()
        self._queue._reserve(wheel_size)
        self.lowest = WheelLevel(tick_ms, wheel_size, now_ms)
        self._due = TimerTaskList()
        self._firing = TimerTaskList()

    def __dealloc__(self):
        # Tasks that outlive the wheel must not point to it. What a task's end runs cannot reach it.
        # No attribute is looked up: at interpreter exit a subclass may be cleared before its
        # instances, and a lookup that failed would leave the tasks with a pointer to freed memory.
        if self._firing is not None:
            self._cancel_all()

    def __len__(self):
        return self._count

    @property
    def has_due(self):
        """Whether tasks wait for `fire` or `pop_due`."""
        return not (self._due._is_empty() and self._firing._is_empty())

    @property
    def next_bucket_ms(self):
        """When a bucket next comes up, monotonic milliseconds; None when none holds anything.

        Never later than the first task's expiration; earlier when a higher level's bucket must come
        down before it.
        """
        cdef DelayQueue queue = self._queue
        cdef TimerTaskList bucket
        while queue._size > 0:
            bucket = <TimerTaskList>queue._heap[0].bucket
            if not bucket._is_empty():
                return bucket._expiration_ms
            # All its tasks were cancelled: nobody needs to wake for it.
            queue._remove_first()
            bucket._expiration_ms = NEVER
        return None

    @property
    def next_expiry_ms(self):
        """When `advance` next has work, monotonic milliseconds; None when nothing waits."""
        return self.now_ms if self.has_due else self.next_bucket_ms

    cpdef TimerTask schedule(self, object delay_ms, object callback):
        """Make a task and add it.

        Args:
            delay_ms: As for `add`.
            callback: As for `TimerTask`.

        Returns:
            The task, to be cancelled.

        Raises:
            ValueError: As for `add`.
        """
        cdef int64_t deadline_ms = self._deadline_ms(delay_ms)
        cdef TimerTask task
        if not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__}")
        task = TimerTask.__new__(TimerTask)
        task.callback = callback
        self._insert(deadline_ms, task)
        return task

    cpdef int add(self, object delay_ms, TimerTask task) except -1:
        """Let a task fire after a delay; a task that waits already is moved.

        Args:
            delay_ms: From the timer's current time; what is not positive is due at once, which
                means in the next `advance`.
            task: Not pending in another timer.

        Raises:
            ValueError: The deadline is beyond an int64, or the task waits in another timer. Nothing
                has changed.
        """
        return self._insert(self._deadline_ms(delay_ms), task)

    cpdef int add_at(self, object deadline_ms, TimerTask task) except -1:
        """Let a task fire at an instant; as `add`, but absolute.

        Args:
            deadline_ms: Monotonic milliseconds; what is not after the timer's time is due at once.
            task: Not pending in another timer.

        Raises:
            ValueError: As for `add`.
        """
        cdef int overflow = 0
        cdef int64_t deadline = PyLong_AsLongLongAndOverflow(deadline_ms, &overflow)
        if overflow > 0 or deadline > INT64_MAX - self.tick_ms:
            raise ValueError(
                f"deadline_ms={deadline_ms} is beyond the timer's range: at most "
                f"{INT64_MAX - self.tick_ms}"
            )
        if overflow < 0:
            deadline = self.now_ms
        return self._insert(deadline, task)

    cdef int64_t _deadline_ms(self, object delay_ms) except -1:
        """The instant that many milliseconds from now; now for a delay that is not positive."""
        cdef int overflow = 0
        cdef int64_t delay = PyLong_AsLongLongAndOverflow(delay_ms, &overflow)
        if overflow == 0 and delay <= INT64_MAX - self.tick_ms - self.now_ms:
            return self.now_ms + (delay if delay > 0 else 0)
        if overflow < 0:
            return self.now_ms
        raise ValueError(
            f"delay_ms={delay_ms} at {self.now_ms} is beyond the timer's range: deadlines are at "
            f"most {INT64_MAX - self.tick_ms}"
        )

    cdef int _insert(self, int64_t deadline_ms, TimerTask task) except -1:
        cdef int64_t expiration_ms = self.now_ms
        cdef int64_t over
        cdef WheelLevel level = None
        if task is None:
            raise TypeError("task must be a TimerTask, not None")
        if task._wheel != NULL and task._wheel != <void*>self:
            raise ValueError("the task waits in another timer: cancel it there before adding it")
        if deadline_ms > expiration_ms:
            over = deadline_ms % self.tick_ms
            expiration_ms = deadline_ms if over == 0 else deadline_ms + (self.tick_ms - over)
            # Before the task is touched: making a level may run the cycle collector, or fail.
            level = self._level_for(expiration_ms)
        if task._next != NULL:
            _unlink(task)
        else:
            Py_INCREF(task)  # the list's reference
            task._wheel = <void*>self
            self._count += 1
        task._expiration_ms = expiration_ms
        self._place(task, level)
        return 0

    cdef WheelLevel _level_for(self, int64_t expiration_ms):
        """The lowest level that holds this instant; the levels up to it are made."""
        cdef WheelLevel level = self.lowest
        while expiration_ms - level.current_ms >= level.interval_ms:
            if level.overflow_wheel is None:
                self._queue._reserve(level.wheel_size)
                level.overflow_wheel = WheelLevel(
                    level.interval_ms, level.wheel_size, level.current_ms
                )
            level = level.overflow_wheel
        return level

    cdef void _place(self, TimerTask task, WheelLevel level) noexcept:
        """Put a task, in no list, into its bucket of a level; without a level it is due."""
        cdef TimerTaskList bucket
        cdef int64_t turn
        if level is None:
            self._due._append(task)
            return
        turn = task._expiration_ms // level.tick_ms
        bucket = <TimerTaskList>level._buckets[turn % level.wheel_size]
        bucket._append(task)
        if bucket._expiration_ms != turn * level.tick_ms:
            bucket._expiration_ms = turn * level.tick_ms
            self._queue._offer(bucket, bucket._expiration_ms)

    def advance(self, now_ms):
        """Move the time; tasks that come due wait, in order, for `fire`.

        Args:
            now_ms: Monotonic milliseconds, not below the current time.

        Returns:
            How many tasks came due.

        Raises:
            ValueError: Time went back. Nothing has changed.
            RuntimeError: Called by a task that is being fired. Nothing has changed.
        """
        cdef DelayQueue queue = self._queue
        cdef TimerTaskList bucket
        cdef int64_t wheel_ms
        if self._is_firing:
            raise RuntimeError("a task that is being fired cannot advance its own timer")
        if not self.now_ms <= now_ms <= INT64_MAX - self.tick_ms:
            raise ValueError(
                f"a timer at {self.now_ms} cannot advance to {now_ms}: time goes forward, up to "
                f"{INT64_MAX - self.tick_ms}"
            )
        self.now_ms = now_ms
        wheel_ms = self.now_ms - self.now_ms % self.tick_ms
        came_due = 0
        while queue._size > 0 and queue._heap[0].expiration_ms <= wheel_ms:
            bucket = <TimerTaskList>queue._heap[0].bucket
            queue._remove_first()
            self.lowest._move_to(bucket._expiration_ms)
            bucket._expiration_ms = NEVER
            came_due += self._flush(bucket)
        self.lowest._move_to(wheel_ms)
        return came_due

    cdef int _flush(self, TimerTaskList bucket) except -1:
        """Move what a bucket holds to lower levels, or to the due list; how many went there."""
        cdef TimerTask task
        cdef int64_t due_before_ms = self.lowest.current_ms + self.lowest.tick_ms
        cdef int came_due = 0
        while not bucket._is_empty():
            task = bucket._first()
            _unlink(task)
            if task._expiration_ms < due_before_ms:
                came_due += 1
                self._place(task, None)
            else:
                self._place(task, self._level_for(task._expiration_ms))
        return came_due

    def pop_due(self):
        """Take the first due task out of the timer.

        Returns:
            The task, no longer pending; None when nothing is due.
        """
        cdef TimerTask task
        if self._due._is_empty():
            return None
        task = self._due._first()
        task.cancel()
        return task

    def fire(self, on_failure):
        """Run the tasks that are due now, in order of expiration.

        What they add is not run, even if it is due at once: that is the next call's. A task that
        raises an `Exception` does not stop the others. Anything else stops the call, and the tasks
        not yet run are the first of the next.

        Args:
            on_failure: Called with the task and its exception.

        Returns:
            How many were run.

        Raises:
            RuntimeError: Called by a task that is being fired.
        """
        cdef TimerTaskList firing = self._firing
        cdef TimerTask task
        cdef Py_ssize_t fired = 0
        if self._is_firing:
            raise RuntimeError("a task that is being fired cannot advance its own timer")
        self._is_firing = True
        while not self._due._is_empty():
            task = self._due._first()
            _unlink(task)
            firing._append(task)
        try:
            while not firing._is_empty():
                task = firing._first()
                task.cancel()
                fired += 1
                try:
                    task.run()
                except Exception as error:
                    on_failure(task, error)
        finally:
            self._is_firing = False
        return fired

    def clear(self):
        """Cancel every task.

        Returns:
            How many there were.
        """
        cdef Py_ssize_t cancelled = self._count
        self._cancel_all()
        return cancelled

    cdef void _cancel_all(self) noexcept:
        cdef WheelLevel level = self.lowest
        self._due._cancel_all()
        self._firing._cancel_all()
        while level is not None:
            for bucket in level._buckets:
                (<TimerTaskList>bucket)._cancel_all()
            level = level.overflow_wheel
