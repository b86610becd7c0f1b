"""One member's session, from one sign of life to the next.

Behaviour.
    A. A sign of life completes it, and another begins: see `sessions`.
    B. It expires: the member is removed, unless a request of it waits here (see
       `Member.has_heartbeat`); the response to that begins another session.

Thread-safety: the broker's thread.
Source: Kafka 3.x DelayedHeartbeat; GroupMetadataManager (4.3.1) for the rules.
"""

from collections.abc import Callable

from kprod.broker.group.classic_group import GROUP_LOCK
from kprod.timer.purgatory import DelayedOperation


class DelayedHeartbeat(DelayedOperation):
    """Waits for a sign of life."""

    __slots__ = ("_expire",)

    def __init__(self, *, delay_ms: int, expire: Callable[[], object]) -> None:
        """Wait for a member.

        Args:
            delay_ms: Its session timeout, or how long a new member may wait.
            expire: Removes the member.
        """
        super().__init__(delay_ms, lock=GROUP_LOCK)
        self._expire = expire

    def try_complete(self) -> bool:
        """Only by force."""
        return False

    def on_complete(self) -> None:
        """Case A needs nothing more."""

    def on_expire(self) -> None:
        """Case B."""
        self._expire()
