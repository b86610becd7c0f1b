"""The session of one group member, until its next heartbeat or its expiry.

Behaviour.
    A. A heartbeat or another request completes it, and a new one begins: see `sessions`.
    B. It expires: the member is removed, unless one of its requests is parked (see
       `Member.has_heartbeat`); the response to that begins another session.

Thread-safety: the broker's thread.
Source: Kafka 3.x DelayedHeartbeat; GroupMetadataManager (4.3.1) for the rules.
"""

from collections.abc import Callable

from kprod.broker.group.classic_group import GROUP_LOCK
from kprod.timer.purgatory import DelayedOperation


class DelayedHeartbeat(DelayedOperation):
    """Waits for a heartbeat."""

    __slots__ = ("_expire",)

    def __init__(self, *, delay_ms: int, expire: Callable[[], object]) -> None:
        """Start to wait.

        Args:
            delay_ms: The session timeout, or the join timeout of a new member.
            expire: Removes the member.
        """
        super().__init__(delay_ms, lock=GROUP_LOCK)
        self._expire = expire

    def try_complete(self) -> bool:
        """Return False: only `force_complete` completes it."""
        return False

    def on_complete(self) -> None:
        """Case A: nothing else to do."""

    def on_expire(self) -> None:
        """Case B."""
        self._expire()
