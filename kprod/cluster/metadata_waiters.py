"""Application threads and tasks that wait for newer metadata, each thread on a lock of its own.

Why not a condition variable. An interrupted `Condition.wait` may leave without the lock that its
caller's `with` is about to release, and a KeyboardInterrupt may land anywhere. Here a waiter owns
one lock, gives up its place on every path, and nobody else touches what it holds.

Why no lock guards the room. A signal handler that waits for the client's thread may come in while
its thread enters or leaves, and the client's thread must be able to wake the others. Each step is
one operation of a dict instead. A waiter looks for the event after it has entered, and the event is
published before `wake_all`; so one of the two notices the other.

Invariant: each waiter is woken at most once, since only one thread can take it out.

Thread-safety: any thread.
"""

import threading
from typing import Protocol

SLICE_MS = 200  # bounds how long a missed wake-up can cost, and how late Ctrl-C is on any platform


class Wakeable(Protocol):
    """Whoever waits, in whatever way."""

    def wake(self) -> None:
        """Let it go on; called once, by any thread, perhaps after it has left: must not block."""


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
        self._waiters: dict[Wakeable, bool] = {}  # in order; leaving needs no search

    def __len__(self) -> int:
        """Return how many threads wait."""
        return len(self._waiters)

    def enter(self, waiter: Wakeable) -> None:
        """Take a place.

        Args:
            waiter: Of the calling thread, or of its event loop.
        """
        self._waiters[waiter] = True

    def leave(self, waiter: Wakeable) -> None:
        """Give up a place; nothing happens if the waiter was woken.

        Args:
            waiter: Of the calling thread, or of its event loop.
        """
        self._waiters.pop(waiter, False)

    def wake_all(self) -> None:
        """Wake everyone, in the order of arrival."""
        for waiter in list(self._waiters):
            if self._waiters.pop(waiter, False):  # else it has left, or another thread wakes it
                waiter.wake()
