# cython: annotation_typing=False, nonecheck=True
"""Which node leads a queue's partition, looked up once in each snapshot of the cluster.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Runs for every batch.

Thread-safety: the sender's.
"""

from kprod.cluster.metadata import Metadata
from kprod.producer.partition_queue import NO_NODE, PartitionQueue


class QueueLeaders:
    """Leaders by the newest metadata; each queue keeps its own until the metadata changes."""

    def __init__(self, metadata: Metadata) -> None:
        """Make a look-up.

        Args:
            metadata: Says which node leads what.
        """
        self._metadata = metadata
        self._snapshot = metadata.snapshot  # whose number `_generation` is
        self._generation = 0

    def leader_id_of(self, queue: PartitionQueue) -> int:
        """Find the leader of a queue's partition.

        Args:
            queue: Any.

        Returns:
            `NO_NODE` if it is not known.
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
