"""Application threads and tasks that wait for newer metadata, each thread on a lock of its own.

Why not a condition variable. An interrupted `Condition.wait` may leave without the lock that its
caller's `with` is about to release, and a KeyboardInterrupt may land anywhere. Here a waiter owns
one lock, gives up its place on every path, and nobody else touches what it holds.

Invariant: `wake_all` releases each waiter's lock at most once, for it takes the waiter out first.

Thread-safety: any thread; the caller holds the lock that guards what is waited for while it calls
`enter`, `leave` and `wake_all`.
"""

import threading
from typing import Protocol

SLICE_MS = 200  # bounds how long a missed wake-up can cost, and how late Ctrl-C is on any platform


class Wakeable(Protocol):
    """Whoever waits, in whatever way."""

    def wake(self) -> None:
        """Let it go on; called once, by any thread, under a lock: it must not block."""


class Waiter:
    """One thread's place; made by the waiting thread."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        """Make a waiter that has not been woken."""
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, timeout_ms: int) -> bool:
        """Sleep until woken.

        Args:
            timeout_ms: Longest sleep, at least 0.

        Returns:
            Whether it was woken.
        """
        return self._lock.acquire(timeout=timeout_ms / 1000)

    def wake(self) -> None:
        """Let the thread go on; call once."""
        self._lock.release()


class WaitingRoom:
    """Everyone who waits for the next event."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        """Make an empty room."""
        self._waiters: dict[Wakeable, None] = {}  # in order; who leaves need not be searched for

    def __len__(self) -> int:
        """Return how many threads wait."""
        return len(self._waiters)

    def enter(self, waiter: Wakeable) -> None:
        """Take a place.

        Args:
            waiter: Of the calling thread, or of its event loop.
        """
        self._waiters[waiter] = None

    def leave(self, waiter: Wakeable) -> None:
        """Give up a place; nothing happens if the waiter was woken.

        Args:
            waiter: Of the calling thread, or of its event loop.
        """
        self._waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """Wake everyone, in the order of arrival."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.wake()
