"""A topic's queues, one for each partition, and their update from metadata.

A topic may get more partitions, be unknown for a while, or be deleted and created again under its
name. Queues are never removed, since each has its partition's sequence: a producer that forgot it
would start at 0 again, and brokers would drop new records as duplicates.

A smaller number of partitions is accepted only if the topic has another id. With the same id it
comes from a broker that lags behind; without ids (old brokers) new records avoid the missing
partitions, and queued ones wait until their delivery deadline.

A topic created again does not know this producer, and such a partition accepts any first sequence.
So sequences continue; but as with a new leader, nothing is sent until the requests in flight to the
deleted topic are complete, and pipelining waits for a first success in the new topic; otherwise the
second of two batches could become the first.

Growth takes no lock, since a signal handler that flushes may run at any point. Queues are created
first and published by atomic steps, which may run twice, or in two threads.

Thread-safety: `follow` by the sender, `grow` from any thread.
Source: KIP-516 for topic ids; ProducerAppendInfo.checkSequence (Kafka 4.3.1); kprod's departure 10.
"""

from typing import TYPE_CHECKING

from kprod._core.send.partition_appender import TopicRoutes
from kprod.cluster.snapshot import NO_TOPIC_ID, TopicSnapshot, are_other_topics
from kprod.producer.partition_queue import NO_NODE, PartitionQueue

if TYPE_CHECKING:
    import uuid


class TopicQueues(TopicRoutes):
    """The queues of one topic.

    Attributes:
        topic_id: The newest known id; all zero if brokers are too old to return it.
    """

    queues: list[PartitionQueue]

    __slots__ = ("_growths", "topic_id")

    def __init__(self, name: str, partition_count: int) -> None:
        super().__init__(name, [])
        self.topic_id: uuid.UUID = NO_TOPIC_ID
        self._growths: dict[int, list[PartitionQueue]] = {}  # by the number of queues before
        self.grow(partition_count)

    def grow(self, partition_count: int) -> None:
        """Create queues for new partitions; does nothing if there are enough."""
        while (first := len(self.queues)) < partition_count:
            made = [PartitionQueue(self.name, number) for number in range(first, partition_count)]
            # If several threads grow the topic, the queues of one are used. The others insert the
            # same queues again.
            made = self._growths.setdefault(first, made)
            self.queues[first : first + len(made)] = made
        self.partition_count: int = max(self.partition_count, partition_count)

    def is_recreated_as(self, topic_id: "uuid.UUID") -> bool:
        """Compare an id with this topic's.

        Args:
            topic_id: The id in the newest metadata; all zero if unknown.

        Returns:
            True if it belongs to another topic of this name, older or newer than this one.
        """
        return are_other_topics(topic_id, self.topic_id)

    def follow(self, topic: TopicSnapshot) -> list[PartitionQueue]:
        """Apply new metadata.

        Args:
            topic: The metadata of this topic.

        Returns:
            The queues of partitions that certainly no longer exist.
        """
        has_ids = NO_TOPIC_ID not in {topic.topic_id, self.topic_id}
        is_recreated = self.is_recreated_as(topic.topic_id)
        if topic.topic_id != NO_TOPIC_ID:
            self.topic_id = topic.topic_id
        if is_recreated:
            for queue in self.queues:
                queue.sent_to = NO_NODE
        elif topic.partition_count == self.partition_count == len(self.queues):
            return []  # the usual case: only leaders have changed, which affects no queue
        if topic.partition_count >= self.partition_count:
            self.grow(topic.partition_count)
        elif is_recreated or not has_ids:
            self.partition_count = topic.partition_count
        for queue in self.queues:
            queue.is_gone = has_ids and queue.partition >= self.partition_count
        return [queue for queue in self.queues[self.partition_count :] if queue.is_gone]
