"""The part of a member that leads its group: the group's members, and the topics that it watches.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator.onLeaderElected, rejoinNeededOrPending (clients 4.3.1).
"""

from collections.abc import Iterator, Sequence

from kprod.cluster.metadata import Metadata
from kprod.consumer.group.group_shares import GroupShares
from kprod.consumer.group.leading import topic_racks, topics_of
from kprod.interfaces import GroupMember
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode

TOPIC_WAIT_MS = 5_000  # the leader assigns without topics that no broker has told of by then


class Leadership:
    """The leadership of one member; none unless the coordinator chose it.

    Attributes:
        members: The members of the group; empty in a follower.
        topics: The topics that any member subscribes to.
        has_returned: Whether it is a static leader that comes back: it assigns nothing (KIP-814).
    """

    def __init__(self, metadata: Metadata, shares: GroupShares) -> None:
        """Start as a follower.

        Args:
            metadata: Provides the topics' partitions.
            shares: Asks for the members' partitions.
        """
        self._metadata = metadata
        self._shares = shares
        self._until_ms = 0
        self._version = -1
        self._counts: dict[str, int] | None = None
        self.members: list[GroupMember] = []
        self.topics: list[str] = []
        self.has_returned: bool = False

    def begin(self, members: list[GroupMember], now_ms: int, *, has_returned: bool) -> None:
        """Lead a generation.

        Args:
            members: All members.
            now_ms: Monotonic time.
            has_returned: See the attribute.
        """
        self.resign()
        self.members, self.topics = members, topics_of(members)
        self.has_returned = has_returned
        self._until_ms = now_ms + TOPIC_WAIT_MS

    def resign(self) -> None:
        """Follow."""
        self.members, self.topics, self._counts = [], [], None
        self.has_returned = False
        self._shares.end()

    def wait_ms(self, now_ms: int) -> int:
        """Return how long to wait for the metadata of the group's topics; 0 if nothing is missing.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds, at most `TOPIC_WAIT_MS`.
        """
        if any(self._is_awaited(name) for name in self.topics):
            return max(0, self._until_ms - now_ms)
        return 0

    def _is_awaited(self, name: str) -> bool:
        """Whether a topic may soon be known; if the brokers have none, `has_changed` notices it."""
        if self._metadata.snapshot.partition_count(name) is not None:
            return False
        error = self._metadata.error_of(name)
        if error is None:
            return True
        return error.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def watch(self) -> dict[str, Sequence[frozenset[str]]]:
        """Return the partitions to assign, and watch for changes of their number from now on.

        Returns:
            The racks of each partition's replicas, by topic.
        """
        found = topic_racks(self._metadata.snapshot, self.topics)
        self._counts = {name: len(racks) for name, racks in found.items()}
        if self.has_returned:
            self._shares.begin()  # partitions may have come while it was away
        return found

    def has_changed(self, now_ms: int) -> bool:
        """Whether partitions came or went since `watch`, or while a returned leader was away.

        Args:
            now_ms: Monotonic time.

        Returns:
            Whether the group must assign again.
        """
        if self._counts is None:
            return False
        shares = self._shares.take(now_ms)
        if shares is not None and not shares.issuperset(self._watched()):
            return True
        if self._version == self._metadata.version:
            return False
        self._version = self._metadata.version
        found = topic_racks(self._metadata.snapshot, self.topics)
        return {name: len(racks) for name, racks in found.items()} != self._counts

    def _watched(self) -> Iterator[TopicPartition]:
        for name, count in (self._counts or {}).items():
            yield from (TopicPartition(name, number) for number in range(count))
