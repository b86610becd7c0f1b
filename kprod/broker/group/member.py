"""One member of a group, and the requests of it that wait.

Thread-safety: the broker's thread.
Source: Kafka ClassicGroupMember (4.3.1).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kprod.broker.request import Request
    from kprod.timer.purgatory import DelayedOperation

Protocols = tuple[tuple[str, bytes], ...]
"""Names of protocols with the member's metadata for each, the preferred one first."""

NO_ASSIGNMENT = b""


class Member:
    """A member.

    Attributes:
        member_id: Member id that the coordinator assigned.
        instance_id: Instance id of a static member; None for a dynamic one.
        client_id: Client id in the member's requests.
        client_host: Its address after a slash, as Kafka writes it.
        session_timeout_ms: Longest time between two signs of life.
        rebalance_timeout_ms: Longest time that it may take to join again.
        protocols: Protocols that the member supports.
        assignment: The member's assignment in the current generation.
        is_new: Its first join is not answered yet.
        parked_join: The JoinGroup request that waits.
        parked_sync: The SyncGroup request that waits.
        session: Its running session timer.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(  # noqa: PLR0913 - a member's own facts, by keyword
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        """Describe a member that waits for nothing."""
        self.member_id: str = member_id
        self.instance_id: str | None = instance_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.session_timeout_ms: int = session_timeout_ms
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.protocols: Protocols = protocols
        self.assignment: bytes = assignment
        self.is_new: bool = False
        self.parked_join: Request | None = None
        self.parked_sync: Request | None = None
        self.session: DelayedOperation | None = None

    @property
    def has_heartbeat(self) -> bool:
        """Whether its session continues without a heartbeat, since a request of it waits here.

        A new member's does not: its client may be gone, and nobody can tell while the join waits.
        """
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol.

        Args:
            protocol: One that it supports, or none.

        Returns:
            Its metadata; nothing for a protocol that it lacks.
        """
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    @property
    def metadata_bytes(self) -> int:
        """Size of its metadata for all protocols, their names included."""
        return metadata_bytes(self.protocols)

    def renamed(self, member_id: str) -> "Member":
        """The same static member under a new id; what waited for the old id is left behind."""
        return Member(
            member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )


def metadata_bytes(protocols: Protocols) -> int:
    """Return the size of a member's metadata for all protocols, their names included."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)
