"""Application threads and tasks that wait for newer metadata, each thread on a lock of its own.

Why not a condition variable. An interrupted `Condition.wait` may leave without the lock that its
caller's `with` is about to release, and a KeyboardInterrupt may land anywhere. Here a waiter owns
one lock, is removed on every path, and nobody else touches what it holds.

Why no lock guards the waiters. A signal handler that waits for the client's thread may come in
while its thread is added or removed, and the client's thread must be able to wake the others. Each
step is one operation of a dict instead. A waiter looks for the event after it was added, and the
event is published before `wake_all`; so one of the two notices the other.

Invariant: each waiter is woken at most once, since only one thread can take it out.

Thread-safety: any thread.
"""

from typing import Protocol

SLICE_MS = 200  # bounds how long a missed wake-up can cost, and how late Ctrl-C is on any platform


class Waiter(Protocol):
    """A locked lock that one thread acquires to wait, or an event loop's signal."""

    def release(self) -> None:
        """End the wait; called once, by any thread, perhaps after it has left: must not block."""


class MetadataWaiters:
    """All waiters for the next answer of the cluster."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        """Make it without waiters."""
        self._waiters: dict[Waiter, bool] = {}  # in order; leaving needs no search

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiters)

    def add(self, waiter: Waiter) -> None:
        """Have the next event wake a waiter.

        Args:
            waiter: Of the calling thread, or of its event loop.
        """
        self._waiters[waiter] = True

    def remove(self, waiter: Waiter) -> None:
        """Undo `add`; nothing happens if the waiter was woken.

        Args:
            waiter: Of the calling thread, or of its event loop.
        """
        self._waiters.pop(waiter, False)

    def wake_all(self) -> None:
        """Wake everyone, in the order of arrival."""
        for waiter in list(self._waiters):
            if self._waiters.pop(waiter, False):  # else it has left, or another thread wakes it
                waiter.release()
