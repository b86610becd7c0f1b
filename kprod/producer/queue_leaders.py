# cython: annotation_typing=False, nonecheck=True
"""Caches which node leads a queue's partition, once for each metadata snapshot.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Runs for every batch.

Thread-safety: the sender.
"""

from kprod.cluster.metadata import Metadata
from kprod.producer.partition_queue import NO_NODE, PartitionQueue


class QueueLeaders:
    """The leaders in the newest metadata; each queue caches its own until the metadata changes."""

    def __init__(self, metadata: Metadata) -> None:
        """Create the lookup.

        Args:
            metadata: Provides the leaders.
        """
        self._metadata = metadata
        self._snapshot = metadata.snapshot  # the snapshot with the number `_generation`
        self._generation = 0

    def leader_id_of(self, queue: PartitionQueue) -> int:
        """Return the leader of a queue's partition.

        Args:
            queue: Any queue.

        Returns:
            The leader's id; `NO_NODE` if unknown.
        """
        snapshot = self._metadata.snapshot
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._generation += 1
        if queue.metadata_generation != self._generation:
            leader = snapshot.leader_of(queue.topic, queue.partition)
            queue.leader_id = NO_NODE if leader is None else leader.node_id
            queue.metadata_generation = self._generation
        return queue.leader_id
