"""An operation that waits for a condition, and gives up at a deadline.

It completes exactly once: when its condition holds, when somebody forces it, or when its time is
over. `on_complete` runs in each case, `on_expire` after it in the last. The flag that decides is
guarded by the operation's lock, which everyone takes who tries it.

Thread-safety: any thread.
Source: Kafka's DelayedOperation.java (server-common, 4.x).
"""

import threading
from contextlib import AbstractContextManager

from kprod._core.wheel import TimerTask

__all__ = ["DelayedOperation", "OperationLock"]


OperationLock = AbstractContextManager[object]
"""What guards an operation: re-entrant, since trying may force."""


class DelayedOperation(TimerTask):
    """The part that every delayed operation has; subclasses say what it waits for.

    Attributes:
        completed: Whether it is over. Only `force_complete` sets it.
        places: What holds it, under its `id`; for `Purgatory`.

    Args:
        delay_ms: How long it may wait, from when it is watched.
        lock: Guards the operation, re-entrant. Operations that change one thing, such as the
            members of one group, may share that thing's lock; by default each has its own.

    Thread-safety: any thread. `lock` guards `completed` and whatever `try_complete` looks at.
    """

    __slots__ = ("completed", "delay_ms", "lock", "places")

    def __init__(self, delay_ms: int, *, lock: OperationLock | None = None) -> None:
        """Make an operation that nothing watches yet."""
        self.delay_ms = delay_ms
        self.lock: OperationLock = threading.RLock() if lock is None else lock
        self.completed = False
        self.places: list[dict[int, DelayedOperation]] = []

    def try_complete(self) -> bool:
        """Look at the condition, and call `force_complete` if it holds. The caller has the lock.

        Returns:
            Whether this call completed it.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do what completing means; called once."""
        raise NotImplementedError

    def on_expire(self) -> None:
        """Do what is to be done, after `on_complete`, only when the time was over."""

    def force_complete(self) -> bool:
        """Complete it now, whatever its condition says.

        Returns:
            Whether this call completed it; False when it was over already.
        """
        with self.lock:
            if self.completed:
                return False
            self.completed = True
            self.cancel()
            token = id(self)  # as `leave`, without the call: this is every operation's end
            for place in self.places:
                place.pop(token, None)
            self.places.clear()
            self.on_complete()
        return True

    def run(self) -> None:
        """Expire: the timer's call."""
        with self.lock:
            if self.force_complete():
                self.on_expire()

    def leave(self) -> None:
        """Be held nowhere any more; for `Purgatory`."""
        token = id(self)
        for place in self.places:
            place.pop(token, None)
        self.places.clear()
