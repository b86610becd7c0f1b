"""Which replica a partition is read from: its leader, or a follower near by.

A leader names the replica that is nearest to a reader that tells its rack. The advice holds for
`metadata_max_age_ms`, as long as that replica serves; then the leader is asked again.

Thread-safety: the I/O thread.
Source: KIP-392; Kafka SubscriptionState.preferredReadReplica (clients 4.3.1).
"""

from typing import NamedTuple

from kprod.cluster.metadata import Metadata
from kprod.model import Node, TopicPartition


class _Preferred(NamedTuple):
    node_id: int
    until_ms: int


class ReadReplicas:
    """The replicas that leaders have named."""

    __slots__ = ("_lasts_ms", "_metadata", "_preferred")

    def __init__(self, metadata: Metadata, lasts_ms: int) -> None:
        """Start with leaders only.

        Args:
            metadata: Knows leaders and nodes.
            lasts_ms: How long a leader's advice is followed.
        """
        self._metadata = metadata
        self._lasts_ms = lasts_ms
        self._preferred: dict[TopicPartition, _Preferred] = {}

    def node_of(self, key: TopicPartition, now_ms: int) -> Node | None:
        """Find the node to fetch a partition from.

        Args:
            key: The partition.
            now_ms: Monotonic.

        Returns:
            None if no leader is known.
        """
        preferred = self._preferred.get(key)
        if preferred is not None:
            node = self._metadata.snapshot.nodes.get(preferred.node_id)
            if node is not None and now_ms < preferred.until_ms:
                return node
            del self._preferred[key]
        return self._metadata.snapshot.leader_of(*key)

    def prefer(self, key: TopicPartition, node_id: int, now_ms: int) -> None:
        """Follow a leader's advice.

        Args:
            key: The partition.
            node_id: As the response has it; one that metadata does not know changes nothing.
            now_ms: Monotonic.
        """
        if node_id in self._metadata.snapshot.nodes:
            self._preferred[key] = _Preferred(node_id, now_ms + self._lasts_ms)

    def forget(self, key: TopicPartition) -> bool:
        """Go back to the leader.

        Args:
            key: The partition.

        Returns:
            Whether it was read from another replica.
        """
        return self._preferred.pop(key, None) is not None
