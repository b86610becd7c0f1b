"""Keeps partitions of a topic from moving in opposite directions between two members.

If a partition of a topic has moved from one member to another, and another one is to move back, the
first one moves back instead: one partition less changes its owner.

Thread-safety: one thread.
Source: Kafka AbstractStickyAssignor.PartitionMovements (clients 4.3.1).
"""

from kprod.consumer.group.java_order import hash_map_order, partition_hash
from kprod.model import TopicPartition


class Movements:
    """The movements of one assignment."""

    def __init__(self) -> None:
        """Start with none."""
        self._pair_of: dict[TopicPartition, tuple[str, str]] = {}

    def instead_of(self, key: TopicPartition, old: str, new: str) -> TopicPartition:
        """Return the partition to move.

        Args:
            key: A partition that is to move.
            old: Its owner.
            new: The member that gets it.

        Returns:
            A partition of the same topic that has come from the new member, if there is one; else
            the partition itself.
        """
        source = self._pair_of.get(key, (old, old))[0]
        back = [
            it
            for it, pair in self._pair_of.items()
            if pair == (new, source) and it.topic == key.topic
        ]
        return hash_map_order(back, partition_hash)[0] if back else key

    def note(self, key: TopicPartition, old: str, new: str) -> None:
        """Record a movement.

        Args:
            key: The partition.
            old: Its owner until now.
            new: Its owner from now on.
        """
        source = self._pair_of.pop(key, (old, old))[0]
        if source != new:
            self._pair_of[key] = (source, new)
