"""A timer with its own threads, for a program without a loop to drive one.

Two threads. The reaper advances the time and sleeps until the next bucket is due, without limit if
there is none. The executor runs due tasks, one after the other, without the lock: a slow task
delays later tasks but not the clock. A due task that the executor has not started can still be
cancelled.

The wakeup. A thread that adds a deadline earlier than the one that the reaper sleeps for must wake
it. That check, and the reaper's own from its look at the queue until it sleeps, are under the one
lock: otherwise a task added between look and sleep is noticed when something else happens, or
never.

Invariants.
    A task runs at most once for each time it was added, and not before its deadline.
    No task runs while `_lock` is held.
    After `shutdown` nothing is pending.

Thread-safety: any thread, tasks included.
Source: Kafka's SystemTimer.java and SystemTimerReaper.java (server-util, 4.x). Its read-write lock
and 200 ms poll are not needed: one lock costs less than the interpreter does, and no wake-up is
lost.
"""

import threading
from collections.abc import Callable

from kprod._core.timer.timer_task import TimerTask
from kprod._core.timer.wheel import TimingWheel
from kprod.clock import Clock
from kprod.errors import ClosedError
from kprod.timer.timer import log_failure

__all__ = ["SHUTDOWN_TIMEOUT_MS", "SystemTimer"]

SHUTDOWN_TIMEOUT_MS = 5_000
"""Time that `shutdown` waits for the running task; Kafka's value."""

_FOREVER = 2**63
"""Later than any deadline: what a reaper with an empty wheel sleeps for."""

_LONGEST_SLEEP_MS = 86_400_000
"""A day: threads cannot sleep for as long as a deadline may be away."""


class SystemTimer:
    """Runs tasks at their deadlines.

    Args:
        clock: Clock of the deadlines.
        name: Begins the names of its threads.
        tick_ms: Resolution in milliseconds, at least 1.
        wheel_size: Buckets a level; at least 2.

    Thread-safety: any thread. `_lock` guards `_wheel`, `_wakes_at_ms` and `_closed`; tasks leave
    the wheel by `TimerTask.cancel` too, which the GIL guards.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_due",
        "_executor",
        "_lock",
        "_reaper",
        "_wake",
        "_wakes_at_ms",
        "_wheel",
    )

    def __init__(
        self, clock: Clock, *, name: str = "kprod-timer", tick_ms: int = 1, wheel_size: int = 20
    ) -> None:
        """Start both threads."""
        self._clock = clock
        self._wheel = TimingWheel(clock.now_ms(), tick_ms=tick_ms, wheel_size=wheel_size)
        self._lock = threading.Lock()  # guards: _wheel, _wakes_at_ms, _closed
        self._wake = threading.Condition(self._lock)
        self._due = threading.Condition(self._lock)
        self._wakes_at_ms = _FOREVER
        self._closed = False
        self._reaper = threading.Thread(target=self._reap, name=f"{name}-reaper", daemon=True)
        self._executor = threading.Thread(
            target=self._execute, name=f"{name}-executor", daemon=True
        )
        self._reaper.start()
        self._executor.start()

    def __len__(self) -> int:
        """Count the tasks that wait, those that are due and not yet begun included."""
        return len(self._wheel)

    @property
    def now_ms(self) -> int:
        """Monotonic milliseconds, from the clock."""
        return self._clock.now_ms()

    def add(self, delay_ms: int, task: TimerTask) -> None:
        """Make a task run after a delay; a pending task is moved.

        Args:
            delay_ms: Milliseconds from now; with 0 or less the task is due immediately.
            task: A task that is not pending in another timer.

        Raises:
            ClosedError: The timer was shut down. A pending task stays as it was.
            ValueError: The deadline is beyond an int64, or the task waits in another timer. Nothing
                has changed.
        """
        self.add_at(self._clock.now_ms() + max(0, delay_ms), task)

    def add_at(self, deadline_ms: int, task: TimerTask) -> None:
        """Make a task run at an absolute time; otherwise like `add`.

        Args:
            deadline_ms: Monotonic milliseconds of the timer's clock.
            task: A task that is not pending in another timer.

        Raises:
            ClosedError: The timer was shut down. A pending task stays as it was.
            ValueError: As for `add`.
        """
        with self._lock:
            if self._closed:
                raise ClosedError(
                    f"cannot add a task due at {deadline_ms} ms: the timer was shut down"
                )
            self._wheel.add_at(deadline_ms, task)
            self._maybe_wake_locked(task)

    def schedule(self, delay_ms: int, callback: Callable[[], object]) -> TimerTask:
        """Make a task and add it.

        Args:
            delay_ms: The delay, as for `add`.
            callback: Runs in the executor's thread.

        Returns:
            The task, to be cancelled.

        Raises:
            ClosedError: The timer was shut down.
            ValueError: As for `add`.
        """
        task = TimerTask(callback)
        self.add(delay_ms, task)
        return task

    def cancel(self, task: TimerTask) -> bool:
        """Cancel a task; the same as its own `cancel`.

        Args:
            task: Pending or not.

        Returns:
            Whether it was pending: if so it will not run, if not it has begun, or was never added.
        """
        return task.cancel()

    def shutdown(self) -> int:
        """Stop: cancel waiting tasks, and wait for the running one.

        From a task of the timer itself it does not wait. Calling it again does no harm.

        Returns:
            Number of cancelled tasks.
        """
        with self._lock:
            self._closed = True
            cancelled = self._wheel.clear()
            self._wake.notify()
            self._due.notify()
        for thread in (self._reaper, self._executor):
            if thread is not threading.current_thread():
                thread.join(SHUTDOWN_TIMEOUT_MS / 1_000)
        return cancelled

    def _maybe_wake_locked(self, task: TimerTask) -> None:
        if task.expiration_ms < self._wakes_at_ms:
            self._wakes_at_ms = task.expiration_ms  # the next to add need not wake it again
            self._wake.notify()

    def _reap(self) -> None:
        while self._reap_once():
            pass

    def _reap_once(self) -> bool:
        """Pass due tasks on and sleep until more are; returns whether to continue."""
        with self._lock:
            sleep_ms = self._move_locked(self._clock.now_ms())
            if not self._closed and sleep_ms > 0:
                self._wake.wait(sleep_ms / 1_000 if sleep_ms < _FOREVER else None)
            return not self._closed

    def _move_locked(self, now_ms: int) -> int:
        """Advance the time and pass due tasks on; return how long the reaper may sleep."""
        wheel = self._wheel
        wheel.advance(max(now_ms, wheel.now_ms))
        next_ms = wheel.next_bucket_ms
        self._wakes_at_ms = _FOREVER if next_ms is None else next_ms
        if wheel.has_due:
            self._due.notify()
        return _FOREVER if next_ms is None else min(next_ms - now_ms, _LONGEST_SLEEP_MS)

    def _execute(self) -> None:
        while (task := self._next_due()) is not None:
            _run(task)
            del task  # a sleeping executor keeps nothing alive

    def _next_due(self) -> TimerTask | None:
        """Wait for a due task and take it out of the timer; None when the timer is shut down."""
        with self._lock:
            while (task := self._wheel.pop_due()) is None and not self._closed:
                self._due.wait()
        return task


def _run(task: TimerTask) -> None:
    try:
        task.run()
    except BaseException as error:  # noqa: BLE001 - whatever a task raises concerns that task only
        log_failure(task, error)
