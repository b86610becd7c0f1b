"""Keeps delayed operations until an event for a key that they watch.

Each of 512 shards has a lock and a map from keys to watch lists. `check_and_complete` gets a list
under the shard's lock and tries its operations without it, each under its own lock. A completed
operation leaves its lists immediately, so only pending operations are held. Every 200 ms, if more
than `purge_interval` watched operations have completed since the last purge, the next one removes
the keys that have no operation any more.
The shards are compiled: `kprod._core.timer.watch_lists`.

Why the operation's lock is held from the first try to the second. No event between the first try
and the registration may be lost, so there is a second try. If the lock were free between them,
another thread could take it in `check_and_complete` and wait inside `try_complete` for a lock that
waits for the first thread: three threads, none of which moves. One rule is left to callers: never
call `check_and_complete` while holding an exclusive lock that `try_complete` may need.

Invariants.
    An operation is in the timer, or in a list, only while it is not completed.
    The order of locks is: operation, then shard. Neither is held when the timer is called.

Thread-safety: any thread, with a `SystemTimer`; with a `Timer` its owner's thread only.
Source: Kafka's DelayedOperationPurgatory.java (server-common, 4.x), for the rules and the numbers.
"""

import contextlib
from collections.abc import Hashable, Iterable
from typing import Generic, NoReturn, Protocol, TypeVar, cast

from kprod._core.timer.timer_task import TimerTask
from kprod._core.timer.watch_lists import WatchedTask, WatchLists
from kprod.errors import ClosedError
from kprod.timer.operation import DelayedOperation

__all__ = ["PURGE_CHECK_MS", "PURGE_INTERVAL", "SHARD_COUNT", "DelayedOperation", "Purgatory"]

SHARD_COUNT = 512
"""Number of locks, and of the parts that the keys are divided into.

Kafka's figure: enough that threads seldom meet at one lock.
"""

PURGE_INTERVAL = 1_000
"""Number of operations that complete between two purges, at least.

Kafka's default of `producer.purgatory.purge.interval.requests` and similar ones.
"""

PURGE_CHECK_MS = 200
"""Interval of checks whether to purge, while any operation is delayed; Kafka's value."""

Operation = TypeVar("Operation", bound=DelayedOperation)


class OperationTimer(Protocol):
    """The methods of a timer that a purgatory uses; `Timer` and `SystemTimer` implement it."""

    def add(self, delay_ms: int, task: TimerTask) -> object:
        """Make a task run after a delay."""


class Purgatory(Generic[Operation]):
    """Watches operations until they complete.

    Args:
        name: The thread's name, for people.
        timer: Expires them. It may be shared.
        purge_interval: Number of completed operations before a purge, at least 1.

    Raises:
        ValueError: `purge_interval` is out of its range.

    Thread-safety: see the module.
    """

    __slots__ = (
        "_delayed",
        "_lists",
        "_purge_interval",
        "_purge_task",
        "_timer",
        "name",
    )

    def __init__(
        self, name: str, timer: OperationTimer, *, purge_interval: int = PURGE_INTERVAL
    ) -> None:
        """Create a purgatory without operations."""
        if purge_interval < 1:
            raise ValueError(
                f"purge_interval of purgatory {name!r} must be at least 1, got {purge_interval}"
            )
        self.name: str = name
        self._timer = timer
        self._purge_interval = purge_interval
        self._lists = WatchLists(SHARD_COUNT)
        self._delayed: dict[int, WatchedTask] = {}
        self._purge_task = TimerTask(self._check_purge)

    @property
    def watched_count(self) -> int:
        """Gauge: entries in all lists; an operation counts once for each of its keys."""
        return self._lists.entry_count

    @property
    def delayed_count(self) -> int:
        """Gauge: operations that wait in the timer."""
        return len(self._delayed)

    @property
    def key_count(self) -> int:
        """Gauge: keys that have a list, watched or not yet purged."""
        return len(self._lists.watched_keys())

    def try_complete_or_watch(self, operation: Operation, keys: Iterable[Hashable]) -> bool:
        """Complete an operation now if it can be, or watch it under its keys until it is.

        Args:
            operation: An operation that is not watched yet.
            keys: Whatever can make its condition true; at least one.

        Returns:
            Whether it was completed by this call.

        Raises:
            ValueError: No key.
            ClosedError: The timer was shut down. The operation is not watched.
        """
        with operation.lock:
            if operation.completed:
                return False
            if operation.try_complete():
                return True
            try:
                if not self._lists.add(operation, keys):
                    self._reject_no_key()
                if operation.completed:
                    # by the caller that made the keys: no other thread can have its lock
                    return False
                if operation.try_complete():
                    return True
                operation.enter(self._delayed)
            except BaseException:
                operation.leave()
                raise
        self._delay(operation)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that watch a key, because something happened to it.

        Args:
            key: The key that was given when they were watched.

        Returns:
            Number of operations that this call completed.
        """
        operations = self._lists.watching(key)
        if operations is None:
            return 0
        completed = sum(_try(cast("Operation", operation)) for operation in operations)
        self._lists.drop_if_empty(key)
        return completed

    def purge(self) -> None:
        """Drop completed operations from all lists, and keys without operations, now."""
        self._lists.added_count = len(self._delayed)
        for key in self._lists.watched_keys():
            for operation in self._lists.watching(key) or ():
                if operation.completed:
                    operation.leave()
            self._lists.drop_if_empty(key)

    def close(self) -> None:
        """Stop the purge; watched operations stay with the timer and their keys."""
        self._purge_task.cancel()

    def _reject_no_key(self) -> NoReturn:
        raise ValueError(f"an operation watched in purgatory {self.name!r} needs at least one key")

    def _delay(self, operation: Operation) -> None:
        """Add a watched operation to the timer."""
        try:
            self._timer.add(operation.delay_ms, operation)
            if not self._purge_task.pending:
                self._timer.add(PURGE_CHECK_MS, self._purge_task)
        except BaseException:
            operation.cancel()
            operation.leave()
            raise
        if operation.completed:
            operation.cancel()  # completed before it was in the timer, so that this found nothing

    def _check_purge(self) -> None:
        if self._lists.added_count - len(self._delayed) > self._purge_interval:
            self.purge()
        if self._delayed:
            with contextlib.suppress(ClosedError):  # the timer is being shut down
                self._timer.add(PURGE_CHECK_MS, self._purge_task)


def _try(operation: DelayedOperation) -> bool:
    with operation.lock:
        return not operation.completed and operation.try_complete()
