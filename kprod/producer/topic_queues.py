"""A topic's queues, one per partition, and how they follow what the cluster says of the topic.

A topic may get more partitions, be forgotten for a while, or be deleted and created again under its
name. Queues are never thrown away, since each keeps its partition's sequences: a producer that
forgot them would begin at 0 again, and brokers would drop new records as ones they have.

Fewer partitions are believed only when the topic has another id. With the same id they are the
response of a broker that lags behind; without ids (old brokers) new records keep away, and
queued ones wait for its delivery deadline.

A topic created again knows nothing of this producer, and a partition that does not know a producer
takes any first sequence. So sequences just continue; but as with a new leader nothing is sent until
requests in flight to the deleted topic are answered, and pipelining waits for a first success in
the new topic, or the second of two batches could become the first.

Growth takes no lock: a signal handler that flushes may come in anywhere. Queues are made first, and
published by steps of which each is atomic, and may be taken twice, or by two threads.

Thread-safety: `follow` by the sender, `grow` by any thread.
Source: KIP-516 for topic ids; ProducerAppendInfo.checkSequence (Kafka 4.3.1); kprod's departure 10.
"""

from typing import TYPE_CHECKING

from kprod._core.send.partition_appender import TopicRoutes
from kprod.cluster.snapshot import NO_TOPIC_ID, TopicSnapshot
from kprod.producer.partition_queue import NO_NODE, PartitionQueue

if TYPE_CHECKING:
    import uuid


class TopicQueues(TopicRoutes):
    """The queues of one topic.

    Attributes:
        topic_id: The newest that is known; all zero where brokers are too old to say.
    """

    queues: list[PartitionQueue]

    __slots__ = ("_growths", "topic_id")

    def __init__(self, name: str, partition_count: int) -> None:
        super().__init__(name, [])
        self.topic_id: uuid.UUID = NO_TOPIC_ID
        self._growths: dict[int, list[PartitionQueue]] = {}  # by the number of queues before
        self.grow(partition_count)

    def grow(self, partition_count: int) -> None:
        """Make queues for partitions that were added; fewer than there are change nothing."""
        while (first := len(self.queues)) < partition_count:
            made = [PartitionQueue(self.name, number) for number in range(first, partition_count)]
            # Of several that grow from here only one's queues are used. The others put the same
            # queues where they are already.
            made = self._growths.setdefault(first, made)
            self.queues[first : first + len(made)] = made
        self.partition_count: int = max(self.partition_count, partition_count)

    def follow(self, topic: TopicSnapshot) -> list[PartitionQueue]:
        """Take over what new metadata says.

        Args:
            topic: This topic.

        Returns:
            Queues of partitions that certainly do not exist any more.
        """
        has_ids = NO_TOPIC_ID not in {topic.topic_id, self.topic_id}
        is_made_anew = has_ids and topic.topic_id != self.topic_id
        if topic.topic_id != NO_TOPIC_ID:
            self.topic_id = topic.topic_id
        if is_made_anew:
            for queue in self.queues:
                queue.sent_to = NO_NODE
        elif topic.partition_count == self.partition_count == len(self.queues):
            return []  # as nearly always: leaders have changed, and no queue is affected
        if topic.partition_count >= self.partition_count:
            self.grow(topic.partition_count)
        elif is_made_anew or not has_ids:
            self.partition_count = topic.partition_count
        for queue in self.queues:
            queue.is_gone = has_ids and queue.partition >= self.partition_count
        return [queue for queue in self.queues[self.partition_count :] if queue.is_gone]
