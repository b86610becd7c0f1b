# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Chooses the replica to read a partition from: its leader, or a nearby follower.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A leader names the replica nearest to a consumer that sends its rack. This is followed for
`metadata_max_age_ms`, as long as that replica responds; then the leader is used again.

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
    """The preferred replicas that leaders have named."""

    def __init__(self, metadata: Metadata, lasts_ms: int) -> None:
        """Start with no preferred replicas.

        Args:
            metadata: Provides leaders and nodes.
            lasts_ms: How long a preferred replica is used.
        """
        self._metadata = metadata
        self._lasts_ms = lasts_ms
        self._preferred: dict[TopicPartition, _Preferred] = {}

    def node_of(self, key: TopicPartition, now_ms: int) -> Node | None:
        """Return the node to fetch a partition from.

        Args:
            key: The partition.
            now_ms: Monotonic time.

        Returns:
            The node; None if no leader is known.
        """
        preferred = self._preferred.get(key) if self._preferred else None
        if preferred is not None:
            node = self._metadata.snapshot.nodes.get(preferred.node_id)
            if node is not None and now_ms < preferred.until_ms:
                return node
            del self._preferred[key]
        return self._metadata.snapshot.leader_of(*key)

    def has_preferred(self) -> bool:
        """Return whether a replica other than the leader is used for a partition."""
        return bool(self._preferred)

    def prefer(self, key: TopicPartition, node_id: int, now_ms: int) -> None:
        """Use a preferred replica.

        Args:
            key: The partition.
            node_id: The node id in the response; ignored if metadata does not have it.
            now_ms: Monotonic time.
        """
        if node_id in self._metadata.snapshot.nodes:
            self._preferred[key] = _Preferred(node_id, now_ms + self._lasts_ms)

    def forget(self, key: TopicPartition) -> bool:
        """Use the leader again.

        Args:
            key: The partition.

        Returns:
            True if another replica was used.
        """
        return self._preferred.pop(key, None) is not None
