"""What the application's threads and the I/O thread tell each other.

Commands go from any thread to the I/O thread: a deque, then the selector's waker. Steps go the
other way: what only the application's thread may do, such as raise an error or go back after a
truncation; `poll` runs them. A thread that waits has a lock of its own, as in
`kprod.cluster.metadata_waiters`, so nothing is held while application code runs.

Thread-safety: any thread; `run_commands` the I/O thread's, `run_steps` the application's.
"""

from collections import deque
from collections.abc import Callable

from kprod.clock import Clock
from kprod.cluster.metadata_waiters import SLICE_MS, MetadataWaiters
from kprod.threads import make_lock

Command = Callable[[], object]


class Mailbox:
    """Both directions.

    Attributes:
        wake: Ends the I/O thread's sleep; set by the wiring.
    """

    __slots__ = ("_commands", "_steps", "_waiters", "wake")

    def __init__(self) -> None:
        """Make it empty."""
        self._commands: deque[Command] = deque()
        self._steps: deque[Command] = deque()
        self._waiters = MetadataWaiters()
        self.wake: Command = _nobody

    def post(self, command: Command) -> None:
        """Have the I/O thread run a command.

        Args:
            command: Must not raise.
        """
        self._commands.append(command)
        self.wake()

    @property
    def has_commands(self) -> bool:
        """Whether the I/O thread has something to do."""
        return bool(self._commands)

    def run_commands(self) -> None:
        """Run the posted commands."""
        while self._commands:
            self._commands.popleft()()

    def hand(self, step: Command) -> None:
        """Have the application's thread run a step in its present or next `poll`.

        Args:
            step: May raise, which `poll` passes on.
        """
        self._steps.append(step)
        self.notify()

    @property
    def has_steps(self) -> bool:
        """Whether the application's thread has something to do."""
        return bool(self._steps)

    def run_steps(self) -> None:
        """Run steps until there are none, or one raises."""
        while self._steps:
            self._steps.popleft()()

    def notify(self) -> None:
        """Let all who wait look again."""
        self._waiters.wake_all()

    def wait(self, is_ready: Callable[[], bool], clock: Clock, until_ms: int | None) -> None:
        """Wait for `notify`, unless it is not necessary.

        Args:
            is_ready: Whether there is nothing to wait for.
            clock: Tells the time.
            until_ms: When to give up, monotonic; None for never.
        """
        waiter = make_lock()
        waiter.acquire()
        try:
            self._waiters.add(waiter)
            while not is_ready():  # looked at after it was added: one of the two notices the other
                left_ms = SLICE_MS if until_ms is None else until_ms - clock.now_ms()
                if left_ms <= 0 or waiter.acquire(timeout=min(left_ms, SLICE_MS) / 1_000):
                    return
        finally:
            self._waiters.remove(waiter)


def _nobody() -> None:
    """There is no thread to wake."""
