# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The threads and tasks that wait for newer metadata, each thread with its own lock.

Why not a condition variable. An interrupted `Condition.wait` may return without the lock that its
caller's `with` is about to release, and a KeyboardInterrupt may occur anywhere. Here each waiter
has its own lock and is removed on every path.

Why no lock guards the waiters. A signal handler that waits for the client's thread may run while
its thread adds or removes a waiter, and the client's thread must be able to wake the others. So
each step is one operation of a dict. A waiter checks for the event after it was added, and the
event is published before `wake_all`, so that none is missed.

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
    """All waiters for the next metadata response."""

    def __init__(self) -> None:
        """Start without waiters."""
        self._waiters: dict[Waiter, bool] = {}  # in order; leaving needs no search

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiters)

    def add(self, waiter: Waiter) -> None:
        """Have the next event wake a waiter.

        Args:
            waiter: The waiter of the calling thread, or of its event loop.
        """
        self._waiters[waiter] = True

    def remove(self, waiter: Waiter) -> None:
        """Undo `add`; nothing happens if the waiter was woken.

        Args:
            waiter: The waiter of the calling thread, or of its event loop.
        """
        self._waiters.pop(waiter, False)

    def wake_all(self) -> None:
        """Wake everyone, in the order of arrival."""
        for waiter in list(self._waiters):
            if self._waiters.pop(waiter, False):  # else it has left, or another thread wakes it
                waiter.release()
