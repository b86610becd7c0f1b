"""The end of a group's join phase, which waits for all members.

Behaviour.
    A. Every member's join is parked and no id is out: the phase ends.
    B. The group's longest rebalance timeout is over: it ends with the members that have joined.
    C. In the first phase of an empty group it never ends by A. When its delay is over and somebody
       came meanwhile, it continues for another delay, until the rebalance timeout is used up.

Thread-safety: the broker's thread.
Source: Kafka 3.x DelayedJoin and InitialDelayedJoin; GroupMetadataManager (4.3.1) for the rules.
"""

from collections.abc import Callable

from kprod.broker.group.classic_group import GROUP_LOCK, Group
from kprod.timer.purgatory import DelayedOperation


class DelayedJoin(DelayedOperation):
    """Cases A and B."""

    __slots__ = ("_finish", "_group")

    def __init__(self, group: Group, *, delay_ms: int, finish: Callable[[], object]) -> None:
        """Start to wait for the members of a group.

        Args:
            group: A group in state Preparing.
            delay_ms: Maximum wait.
            finish: Ends the join phase.
        """
        super().__init__(delay_ms, lock=GROUP_LOCK)
        self._group = group
        self._finish = finish

    def try_complete(self) -> bool:
        """Case A."""
        return self._group.has_all_joined and self.force_complete()

    def on_complete(self) -> None:
        """End the join phase, unless another operation has replaced this one."""
        if self._group.delayed_join is self:
            self._group.delayed_join = None
            self._finish()

    def on_expire(self) -> None:
        """Case B: nothing else to do."""


class InitialDelayedJoin(DelayedJoin):
    """Case C; whether the phase continues is decided in `rebalance`."""

    __slots__ = ()

    def try_complete(self) -> bool:
        """Return False: only time completes it."""
        return False
