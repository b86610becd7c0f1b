"""The wait of a generation for the syncs of its members.

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
        """Wait for a generation.

        Args:
            group: In Completing.
            delay_ms: Longest wait.
            expire: Carries out case B.
        """
        super().__init__(delay_ms, lock=GROUP_LOCK)
        self._group = group
        self._expire = expire

    def try_complete(self) -> bool:
        """Case A."""
        return not self._group.pending_syncs and self.force_complete()

    def on_complete(self) -> None:
        """Case A needs nothing more."""

    def on_expire(self) -> None:
        """Case B, unless another generation waits."""
        if self._group.delayed_sync is self:
            self._group.delayed_sync = None
            self._expire()
