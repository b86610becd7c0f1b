"""Waits until all members of a generation have synced.

Behaviour.
    A. Every member has synced: nothing is left to do.
    B. The group's rebalance timeout is over: those that have not are removed, and the others
       rebalance.

Thread-safety: the broker's thread.
Source: Kafka 3.x DelayedSync; GroupMetadataManager.expirePendingSync (4.3.1).
"""

from collections.abc import Callable

from kprod.broker.group.classic_group import GROUP_LOCK, Group
from kprod.timer.purgatory import DelayedOperation


class DelayedSync(DelayedOperation):
    """Waits for syncs."""

    __slots__ = ("_expire", "_group")

    def __init__(self, group: Group, *, delay_ms: int, expire: Callable[[], object]) -> None:
        """Start to wait for a generation's members.

        Args:
            group: A group in state Completing.
            delay_ms: Maximum wait.
            expire: Implements case B.
        """
        super().__init__(delay_ms, lock=GROUP_LOCK)
        self._group = group
        self._expire = expire

    def try_complete(self) -> bool:
        """Case A."""
        return not self._group.pending_syncs and self.force_complete()

    def on_complete(self) -> None:
        """Case A: nothing else to do."""

    def on_expire(self) -> None:
        """Case B, unless a newer generation waits."""
        if self._group.delayed_sync is self:
            self._group.delayed_sync = None
            self._expire()
