"""An operation that waits for a condition, up to a deadline.

It completes exactly once: when its condition holds, when it is forced, or when its time is over.
`on_complete` runs in each case, and `on_expire` after it in the last case. The operation's lock
guards the flag that decides; every thread that tries to complete it takes the lock.

Thread-safety: any thread.
Source: Kafka's DelayedOperation.java (server-common, 4.x).
"""

from contextlib import AbstractContextManager

from kprod._core.timer.watch_lists import WatchedTask

__all__ = ["DelayedOperation", "OperationLock"]


OperationLock = AbstractContextManager[object]
"""Lock of an operation; re-entrant, since an attempt may complete the operation."""


class DelayedOperation(WatchedTask):
    """Base class of delayed operations; subclasses define the condition that they wait for.

    `force_complete` completes it now, whatever its condition says, and tells whether that call did.

    Attributes:
        completed: Whether it is over. Only `force_complete` sets it.
        delay_ms: Maximum wait, from the start of watching.
        lock: Guards `completed` and whatever `try_complete` looks at.

    Args:
        delay_ms: Delay until the expiry.
        lock: Guards the operation, re-entrant. Operations that change one thing, such as the
            members of one group, may share that thing's lock; by default each has its own.

    Thread-safety: any thread.
    """

    __slots__ = ()

    def try_complete(self) -> bool:
        """Check the condition, and call `force_complete` if it holds. The caller has the lock.

        Returns:
            Whether this call completed it.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Perform the completion; called once."""
        raise NotImplementedError

    def on_expire(self) -> None:
        """Run the operation's end, after `on_complete`, only if the timeout expired."""
