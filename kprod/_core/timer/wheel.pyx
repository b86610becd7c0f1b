# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The hierarchical timing wheel: deadlines that are added and cancelled in O(1), at once.

Why a wheel. Most deadlines of a client are cancelled, not met. A heap takes O(log n) to insert and
keeps a cancelled entry until its time comes; a bucket drops it at once.

How. The lowest level has `wheel_size` buckets of one tick. Deadlines beyond its interval go to an
overflow level, created when first needed, whose tick is that whole interval. A bucket with tasks
is in a heap, ordered by the time at which its range starts, so the heap has tens of entries. When
the time of a higher level's bucket comes, its tasks are spread over the lower levels.

The entry is the task itself, so `cancel` needs no search. `timer_task` describes the buckets, and
why they are fast with a million tasks; `delay_queue` describes their order.

Invariants.
    A task is in exactly one bucket, or in the due or the firing list, or in none.
    `len(wheel)` is the number of those tasks; they point to that number, others to none.
    Every bucket in the queue expires after each level's current time.
    Expirations are whole ticks, rounded up, so that nothing fires early.

Complexity: add O(levels), cancel O(1), advance O(due buckets + tasks in them).
Thread-safety: with the GIL held; no method releases it in the middle of a change, except `fire`,
between tasks. One owner advances and fires.
Source: G. Varghese, A. Lauck, "Hashed and Hierarchical Timing Wheels" (1987); Kafka's
TimingWheel.java, TimerTaskList.java and SystemTimer.java (server-common, 4.x) for the rules,
without their locks.
"""

cimport cython
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT64_MAX, int64_t

from kprod._core.timer.delay_queue cimport DelayQueue
from kprod._core.timer.timer_task cimport (
    BLOCK_TASKS,
    Bucket,
    TaskBlock,
    TimerTask,
    TimerTaskList,
    bucket_append,
    bucket_forget_until,
    bucket_is_empty,
    bucket_reserve,
    detach,
    drop_blocks,
    in_bucket,
)
from kprod._core.timer.wheel_level cimport NEVER, WheelLevel


@cython.no_gc_clear
cdef class TimingWheel:
    """All levels, the queue of their buckets, and the tasks that are due.

    Args:
        now_ms: Monotonic milliseconds; 0 ≤ now_ms.
        tick_ms: Width of the lowest level's buckets; at least 1.
        wheel_size: Buckets per level; at least 2.

    Raises:
        ValueError: An argument is out of its range.
    """

    def __cinit__(self, now_ms, *, tick_ms=1, wheel_size=20, **of_subclass):
        if of_subclass and type(self) is TimingWheel:
            raise TypeError(f"TimingWheel() got unexpected arguments: {', '.join(of_subclass)}")
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
        # Tasks that outlive it must not point to it. Code run when one is freed cannot reach it.
        # No attribute is looked up: at interpreter exit a subclass may be cleared before its
        # instances, and a failed lookup would leave the tasks with a pointer to freed memory.
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
        """Time of the next bucket with tasks, monotonic milliseconds; None if there is none.

        Never later than the first task's expiration; earlier if a higher level's bucket must be
        spread before it.
        """
        cdef DelayQueue queue = self._queue
        cdef Bucket* bucket
        while queue._size > 0:
            bucket = queue._heap[0].bucket
            if not bucket_is_empty(bucket):
                return bucket.expiration_ms
            # All its tasks were cancelled, so it needs no wakeup.
            queue._remove_first()
            bucket.expiration_ms = NEVER
        return None

    @property
    def next_expiry_ms(self):
        """Time of the next work for `advance`, monotonic milliseconds; None without tasks."""
        return self.now_ms if self.has_due else self.next_bucket_ms

    cpdef bint is_due(self, int64_t now_ms) except -1:
        """Return whether `advance` to this time would have work.

        Args:
            now_ms: Monotonic time, in milliseconds.

        Returns:
            True also if only a higher level's bucket must be spread by then.
        """
        if self.has_due:
            return True
        instant_ms = self.next_bucket_ms
        return instant_ms is not None and <int64_t>instant_ms <= now_ms

    cpdef TimerTask schedule(self, object delay_ms, object callback):
        """Create a task and add it.

        Args:
            delay_ms: The delay, as for `add`.
            callback: The function, as for `TimerTask`.

        Returns:
            The task, so that it can be cancelled.

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
        """Make a task fire after a delay; a pending task is moved.

        Args:
            delay_ms: From the timer's current time; a task with a delay of at most 0 is due at
                once, which means in the next `advance`.
            task: A task that is not pending in another timer.

        Raises:
            ValueError: The deadline is beyond an int64, or the task is pending in another timer.
                Nothing has changed.
        """
        return self._insert(self._deadline_ms(delay_ms), task)

    cpdef int add_at(self, object deadline_ms, TimerTask task) except -1:
        """Make a task fire at an absolute time; otherwise like `add`.

        Args:
            deadline_ms: Monotonic milliseconds; up to the timer's time, the task is due at once.
            task: A task that is not pending in another timer.

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
        """Return the time that many milliseconds from now; now for a delay of at most 0."""
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
        cdef WheelLevel level
        cdef Bucket* bucket = NULL
        if task is None:
            raise TypeError("task must be a TimerTask, not None")
        if task._count != NULL and task._count != &self._count:
            raise ValueError("the task waits in another timer: cancel it there before adding it")
        if deadline_ms > expiration_ms:
            over = deadline_ms % self.tick_ms
            expiration_ms = deadline_ms if over == 0 else deadline_ms + (self.tick_ms - over)
            # Before the task is changed: creating a level may run the garbage collector or fail,
            # and so may allocating a block.
            level = self._level_for(expiration_ms)
            bucket = level._bucket_for(expiration_ms)
            if task._prev == in_bucket(bucket):
                task._expiration_ms = expiration_ms  # a bucket holds one rotation of its level
                return 0
            bucket_reserve(bucket)
        if task._next == NULL:
            Py_INCREF(task)  # the bucket's reference
            task._count = &self._count
            self._count += 1
        else:
            detach(task)
        task._expiration_ms = expiration_ms
        if bucket == NULL:
            self._due._append(task)
        else:
            bucket_append(bucket, task)
            self._maybe_offer(bucket, level, expiration_ms)
        return 0

    cdef void _maybe_offer(self, Bucket* bucket, WheelLevel level, int64_t expiration_ms) noexcept:
        """Put a bucket into the queue, unless it is there for this rotation of its level."""
        cdef int64_t starts_ms = expiration_ms - expiration_ms % level.tick_ms
        if bucket.expiration_ms != starts_ms:
            bucket.expiration_ms = starts_ms
            self._queue._offer(bucket, starts_ms)

    cdef WheelLevel _level_for(self, int64_t expiration_ms):
        """Return the lowest level that covers this time; levels up to it are created."""
        cdef WheelLevel level = self.lowest
        while expiration_ms - level.current_ms >= level.interval_ms:
            if level.overflow_wheel is None:
                self._queue._reserve(level.wheel_size)
                level.overflow_wheel = WheelLevel(
                    level.interval_ms, level.wheel_size, level.current_ms
                )
            level = level.overflow_wheel
        return level

    def advance(self, now_ms):
        """Move the time; tasks that become due wait, in order, for `fire`.

        Args:
            now_ms: Monotonic milliseconds, not below the current time.

        Returns:
            Number of tasks that became due.

        Raises:
            ValueError: Time went back. Nothing has changed.
            RuntimeError: Called by a task that is being fired. Nothing has changed.
            MemoryError: A bucket could not be spread. No task is lost; another call continues.
        """
        cdef DelayQueue queue = self._queue
        cdef Bucket* bucket
        cdef int64_t wheel_ms
        cdef int64_t starts_ms
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
            bucket = queue._heap[0].bucket
            starts_ms = bucket.expiration_ms
            queue._remove_first()
            self.lowest._move_to(starts_ms)
            bucket.expiration_ms = NEVER
            try:
                came_due += self._flush(bucket)
            except MemoryError:
                bucket.expiration_ms = starts_ms
                queue._offer(bucket, starts_ms)
                raise
        self.lowest._move_to(wheel_ms)
        return came_due

    cdef int _flush(self, Bucket* bucket) except -1:
        """Move a bucket's tasks to lower levels or to the due list; count those now due."""
        cdef int64_t due_before_ms = self.lowest.current_ms + self.lowest.tick_ms
        cdef TaskBlock* block
        cdef TimerTask task
        cdef Py_ssize_t place, count
        cdef int came_due = 0
        if bucket_is_empty(bucket):
            return 0
        block = bucket.last.next
        while True:
            count = bucket.last_count if block == bucket.last else BLOCK_TASKS
            for place in range(count):
                task = <TimerTask>block.tasks[place]
                if task._expiration_ms < due_before_ms:
                    came_due += 1
                    self._due._append(task)
                else:
                    try:
                        self._spread(task)
                    except MemoryError:
                        bucket_forget_until(bucket, block, place)
                        raise
            if block == bucket.last:
                break
            block = block.next
        drop_blocks(bucket)
        return came_due

    cdef int _spread(self, TimerTask task) except -1:
        """Put a task of an expired bucket into a lower level's bucket."""
        cdef WheelLevel level = self._level_for(task._expiration_ms)
        cdef Bucket* lower = level._bucket_for(task._expiration_ms)
        bucket_reserve(lower)
        bucket_append(lower, task)
        self._maybe_offer(lower, level, task._expiration_ms)
        return 0

    def pop_due(self):
        """Remove the first due task from the timer.

        Returns:
            The task, no longer pending; None if no task is due.
        """
        cdef TimerTask task
        if self._due._is_empty():
            return None
        task = self._due._first()
        TimerTask.cancel(task)
        return task

    def fire(self, on_failure):
        """Run the tasks that are due now, in order of expiration.

        Tasks that they add are not run, even if due at once: the next call runs them. A task that
        raises an `Exception` does not stop the others. Any other exception ends the call, and the
        tasks not yet run are the first of the next one.

        Args:
            on_failure: Called with the task and its exception.

        Returns:
            Number of tasks that were run.

        Raises:
            RuntimeError: Called by a task that is being fired.
        """
        cdef TimerTaskList firing = self._firing
        cdef TimerTask task
        cdef Py_ssize_t fired = 0
        if self._is_firing:
            raise RuntimeError("a task that is being fired cannot advance its own timer")
        self._is_firing = True
        firing._take_all(self._due)
        try:
            while not firing._is_empty():
                task = firing._first()
                TimerTask.cancel(task)
                fired += 1
                try:
                    task.run()
                except Exception as error:
                    on_failure(task, error)
        finally:
            self._is_firing = False
        return fired

    def clear(self):
        """Cancel every task, and return their number."""
        cdef Py_ssize_t cancelled = self._count
        self._cancel_all()
        return cancelled

    cdef void _cancel_all(self) noexcept:
        cdef WheelLevel level = self.lowest
        self._due._cancel_all()
        self._firing._cancel_all()
        while level is not None:
            level._cancel_all()
            level = level.overflow_wheel
