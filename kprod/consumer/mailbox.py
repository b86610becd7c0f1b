# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Messages between the application's threads and the I/O thread.

Commands go from any thread to the I/O thread, by a deque and the selector's waker. Steps go to the
polling thread, for actions that only it may do, such as raising an error or going back after a
truncation; `poll` runs them. Each waiting thread has its own lock, as in
`kprod.cluster.metadata_waiters`, so no lock is held while application code runs.

Thread-safety: any thread; `run_commands` on the I/O thread, `run_steps` on the polling thread.
"""

from collections import deque
from collections.abc import Callable

from kprod._core.threads import wait_for
from kprod.clock import Clock
from kprod.cluster.metadata_waiters import SLICE_MS, MetadataWaiters, Waiter
from kprod.errors import KprodError
from kprod.threads import make_lock

Command = Callable[[], object]


class StepUnfinished(Exception):
    """A step must run again in the next read, since this one's time is over."""


class Mailbox:
    """The queues of both directions.

    Attributes:
        wake: Wakes the I/O thread; set by `consumer_wiring`.
    """

    def __init__(self) -> None:
        """Start with no partitions."""
        self._commands: deque[Command] = deque()
        self._steps: deque[Command] = deque()
        self._waiters: MetadataWaiters = MetadataWaiters()
        self.wake: Command = _nobody

    def post(self, command: Command) -> None:
        """Make the I/O thread run a command.

        Args:
            command: A function that must not raise.
        """
        self._commands.append(command)
        self.wake()

    @property
    def has_commands(self) -> bool:
        """Whether commands wait for the I/O thread."""
        return bool(self._commands)

    def run_commands(self) -> None:
        """Run the posted commands."""
        while self._commands:
            self._commands.popleft()()

    def hand(self, step: Command) -> None:
        """Make the polling thread run a step in its current or next `poll`.

        Args:
            step: A function; `poll` propagates its exceptions.
        """
        self._steps.append(step)
        self.notify()

    @property
    def has_steps(self) -> bool:
        """Whether steps wait for the polling thread."""
        return bool(self._steps)

    def run_steps(self) -> bool:
        """Run the waiting steps, until one raises; those that they hand are left to the next call.

        A step that a signal handler's exception leaves unfinished runs again: it can be repeated.

        Returns:
            False if a step is unfinished, so no record may be returned.

        Raises:
            KprodError: A step's error; the step is done.
        """
        if not self._steps:
            return True
        for _ in range(len(self._steps)):
            try:
                self._steps[0]()
            except StepUnfinished:
                return False
            except KprodError:
                self._steps.popleft()
                raise
            self._steps.popleft()
        return True

    def notify(self) -> None:
        """Wake all waiting threads, which check their conditions again."""
        self._waiters.wake_all()

    def add_waiter(self, waiter: Waiter) -> None:
        """Have the next `notify` release a waiter, which then checks its condition.

        Args:
            waiter: The signal of an event loop; each call of `notify` needs another `add_waiter`.
        """
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        """Undo `add_waiter`; nothing happens if the waiter was released.

        Args:
            waiter: A waiter.
        """
        self._waiters.remove(waiter)

    def wait(self, is_ready: Callable[[], bool], clock: Clock, until_ms: int | None) -> None:
        """Wait for `notify`, unless the condition holds already.

        Args:
            is_ready: The condition.
            clock: Clock of the waits.
            until_ms: Deadline, monotonic; None for none.
        """
        waiter = make_lock()
        waiter.acquire()
        try:
            self._waiters.add(waiter)
            while not is_ready():  # checked after adding the waiter, so no notification is missed
                left_ms = SLICE_MS if until_ms is None else until_ms - clock.now_ms()
                if left_ms <= 0 or wait_for(waiter, min(left_ms, SLICE_MS) / 1_000):
                    return
        finally:
            self._waiters.remove(waiter)


def _nobody() -> None:
    """Do nothing: there is no thread to wake."""
