"""Threads of which only the test's own runs: what it waits for happens while it waits.

A lock that is held by nobody else than the future moves time forward, a turn of the producer at a
time, until a turn has released it or its timeout is over. So a wait takes virtual time only, and a
wait that nothing ends is an error of the test.
"""

from collections.abc import Callable, Hashable
from types import TracebackType

from kprod.clock import ManualClock

TURNS_MAX = 50_000  # per wait
_NS_PER_S = 1_000_000_000


class VirtualLock:
    """A lock whose waits take turns."""

    def __init__(self, threads: "VirtualThreads") -> None:
        self._threads = threads
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See `Lock.acquire`."""
        threads = self._threads
        ends_ns = threads.clock.now_ns() + round(timeout * _NS_PER_S)
        for _ in range(TURNS_MAX):
            if not self._is_held:
                self._is_held = True
                return True
            if not blocking or (timeout >= 0 and threads.clock.now_ns() >= ends_ns):
                return False
            threads.turn()
        raise AssertionError(f"nothing has ended a wait in {TURNS_MAX} turns")

    def release(self) -> None:
        """See `Lock.release`."""
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        self.release()


class VirtualThread:
    """A thread that runs when the test says so."""

    def __init__(self, threads: "VirtualThreads", name: str, run: Callable[[], object]) -> None:
        self.name = name
        self._threads = threads
        self._run = run

    def run(self) -> None:
        """Run to the end, as another thread than the caller's."""
        before, self._threads.ident = self._threads.ident, self.name
        try:
            self._run()
        finally:
            self._threads.ident = before

    def join(self, timeout: float | None = None) -> None:
        """It has run to its end before anybody joins it."""


class VirtualThreads:
    """See `kprod.threads.Threads`.

    Attributes:
        turn: Steps to run while the test waits.
        ident: Identifier of the running thread.
        started: Every thread.
        lock_count: Locks that were made.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.turn: Callable[[], object] = lambda: clock.advance(1)
        self.ident: Hashable = "test"
        self.started: list[VirtualThread] = []
        self.lock_count = 0

    def start(self, name: str, run: Callable[[], object]) -> VirtualThread:
        """See `Threads.start`."""
        self.started.append(VirtualThread(self, name, run))
        return self.started[-1]

    def current(self) -> Hashable:
        """See `Threads.current`."""
        return self.ident

    def make_lock(self) -> VirtualLock:
        """See `Threads.make_lock`."""
        self.lock_count += 1
        return VirtualLock(self)
