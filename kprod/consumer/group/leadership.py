"""The part of a member that leads its group: the group's members, and the topics that it watches.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator.onLeaderElected, rejoinNeededOrPending (clients 4.3.1).
"""

from collections.abc import Sequence

from kprod.cluster.metadata import Metadata
from kprod.consumer.group.leading import topic_racks, topics_of
from kprod.interfaces import GroupMember
from kprod.protocol.error_table import ErrorCode

TOPIC_WAIT_MS = 5_000  # the leader assigns without topics that no broker has told of by then


class Leadership:
    """The leadership of one member; none unless the coordinator chose it.

    Attributes:
        members: The members of the group; empty in a follower.
        topics: The topics that any member subscribes to.
    """

    def __init__(self, metadata: Metadata) -> None:
        """Start as a follower.

        Args:
            metadata: Provides the topics' partitions.
        """
        self._metadata = metadata
        self._until_ms = 0
        self._version = -1
        self._counts: dict[str, int] | None = None
        self.members: list[GroupMember] = []
        self.topics: list[str] = []

    def begin(self, members: list[GroupMember], now_ms: int) -> None:
        """Lead a generation.

        Args:
            members: All members.
            now_ms: Monotonic time.
        """
        self.members, self.topics = members, topics_of(members)
        self._until_ms = now_ms + TOPIC_WAIT_MS
        self._counts = None

    def resign(self) -> None:
        """Follow."""
        self.members, self.topics, self._counts = [], [], None

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
        return found

    def has_changed(self) -> bool:
        """Whether partitions came or went since `watch`."""
        if self._counts is None or self._version == self._metadata.version:
            return False
        self._version = self._metadata.version
        found = topic_racks(self._metadata.snapshot, self.topics)
        return {name: len(racks) for name, racks in found.items()} != self._counts
