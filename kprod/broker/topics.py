"""The topics of a cluster: names, ids, partitions and where their replicas stand.

Topic ids come from a counter, not from chance, so that a simulation repeats itself; a topic made
again gets another id.

Thread-safety: the broker's thread.
Source: KIP-516 for topic ids.
"""

import uuid
from collections.abc import Callable, Iterator

from kprod.broker.config import TopicConfig
from kprod.broker.refusal import Refused
from kprod.broker.replication import Partition
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode
from kprod.topic_name import name_fault
from kprod.wording import counted

PARTITIONS_MAX = 100_000
_TOPIC_ID_SPACE = uuid.UUID("6b70726f-6400-4000-8000-746f70696373")

MakePartition = Callable[[TopicPartition, list[int], TopicConfig], Partition]


def check_name(name: str) -> None:
    """Check a topic's name.

    Args:
        name: As a client gave it.

    Raises:
        Refused: With INVALID_TOPIC_EXCEPTION and the reason.
    """
    fault = name_fault(name)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


class Topic:
    """A topic and its partitions, in order of their indexes."""

    __slots__ = ("config", "name", "overrides", "partitions", "replication_factor", "topic_id")

    def __init__(
        self,
        name: str,
        topic_id: uuid.UUID,
        config: TopicConfig,
        *,
        overrides: dict[str, str | None],
        replication_factor: int,
    ) -> None:
        """Make a topic without partitions."""
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.overrides = overrides
        self.replication_factor = replication_factor
        self.partitions: list[Partition] = []


class TopicRegistry:
    """All topics of the cluster.

    Attributes:
        node_ids: All brokers, stopped ones too.
    """

    __slots__ = ("_by_id", "_by_name", "_created_count", "_make_partition", "node_ids")

    def __init__(self, node_ids: list[int], make_partition: MakePartition) -> None:
        """Make an empty registry.

        Args:
            node_ids: All brokers, stopped ones too.
            make_partition: Builds a partition on given brokers.
        """
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self._created_count = 0
        self.node_ids = node_ids
        self._make_partition = make_partition

    def __iter__(self) -> Iterator[Topic]:
        """All topics, oldest first."""
        return iter(self._by_name.values())

    def __len__(self) -> int:
        """Number of topics."""
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """A partition, None when topic or index is unknown."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partitions(self) -> Iterator[Partition]:
        """Every partition of every topic."""
        for topic in self._by_name.values():
            yield from topic.partitions

    def create(  # a topic's own facts, all but the name by keyword
        self,
        name: str,
        *,
        partition_count: int,
        replication_factor: int,
        config: TopicConfig,
        overrides: dict[str, str | None] | None = None,
        assignment: list[list[int]] | None = None,
    ) -> Topic:
        """Make a topic.

        Args:
            name: Legal and free.
            partition_count: 1 to 100,000.
            replication_factor: 1 to the number of brokers.
            config: What it is to use.
            overrides: The settings that were given for it, as text.
            assignment: Brokers of each partition; None spreads them round robin.

        Returns:
            The topic, its partitions ready.

        Raises:
            Refused: The name is illegal or taken, or a number is out of bounds.
        """
        self.check_new(name, partition_count, replication_factor)
        self._created_count += 1
        topic_id = uuid.uuid5(_TOPIC_ID_SPACE, f"{self._created_count}/{name}")
        topic = Topic(
            name,
            topic_id,
            config,
            overrides=overrides or {},
            replication_factor=replication_factor,
        )
        self._by_name[name] = topic
        self._by_id[topic_id] = topic
        self._grow(topic, partition_count, assignment)
        return topic

    def check_new(self, name: str, partition_count: int, replication_factor: int) -> None:
        """Check what a new topic would be.

        Raises:
            Refused: The name is illegal or taken, or a number is out of bounds.
        """
        check_name(name)
        if name in self._by_name:
            message = f"topic {name!r} exists"
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, message)
        if not 1 <= partition_count <= PARTITIONS_MAX:
            message = f"{partition_count} partitions; 1 to {PARTITIONS_MAX} are possible"
            raise Refused(ErrorCode.INVALID_PARTITIONS, message)
        if not 1 <= replication_factor <= len(self.node_ids):
            message = (
                f"replication factor {replication_factor}; 1 to {len(self.node_ids)}, the number of"
                " brokers, are possible"
            )
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)

    def grow(self, name: str, partition_count: int, *, dry_run: bool = False) -> None:
        """Add partitions to a topic.

        Args:
            name: Of the topic.
            partition_count: The new number, above the present one.
            dry_run: Only check.

        Raises:
            Refused: The topic is unknown, or the number is not a growth.
        """
        topic = self._by_name.get(name)
        if topic is None:
            message = f"there is no topic {name!r}"
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        present = len(topic.partitions)
        if not present < partition_count <= PARTITIONS_MAX:
            partitions = counted(present, "partition")
            message = f"topic {name!r} has {partitions}; {partition_count} is no growth"
            raise Refused(ErrorCode.INVALID_PARTITIONS, message)
        if not dry_run:
            self._grow(topic, partition_count, None)

    def delete(self, name: str) -> Topic:
        """Take a topic out.

        Returns:
            What was taken out, so that those who wait for its partitions can be told.

        Raises:
            Refused: The topic is unknown.
        """
        topic = self._by_name.pop(name, None)
        if topic is None:
            message = f"there is no topic {name!r}"
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        del self._by_id[topic.topic_id]
        return topic

    def _grow(self, topic: Topic, partition_count: int, assignment: list[list[int]] | None) -> None:
        for index in range(len(topic.partitions), partition_count):
            nodes = assignment[index] if assignment else self._spread(index, topic)
            name = TopicPartition(topic.name, index)
            topic.partitions.append(self._make_partition(name, nodes, topic.config))

    def _spread(self, index: int, topic: Topic) -> list[int]:
        count = len(self.node_ids)
        return [self.node_ids[(index + step) % count] for step in range(topic.replication_factor)]
