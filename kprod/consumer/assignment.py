"""Which partitions are read, and whole topics of which every partition is.

The mapping of partitions is replaced as a whole, so that any thread may walk the one that it has.

Thread-safety: one thread at a time changes it, which `ConsumerEngine` sees to; any thread reads.
Source: Kafka SubscriptionState (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kprod.consumer.position import AssignedPartition, Start
from kprod.errors import KprodError
from kprod.model import TopicPartition
from kprod.topic_name import name_fault

PARTITION_MAX = 2**31 - 1


class Assignment:
    """The partitions of one consumer.

    Attributes:
        partitions: By topic and partition.
        topics: Topics of which every partition is read; empty for an assignment of partitions.
        version: Grows with each change.
    """

    __slots__ = ("partitions", "topics", "version")

    def __init__(self) -> None:
        """Make it empty."""
        self.partitions: Mapping[TopicPartition, AssignedPartition] = MappingProxyType({})
        self.topics: tuple[str, ...] = ()
        self.version: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self.partitions and not self.topics

    @property
    def names(self) -> list[str]:
        """The topics that metadata is needed of."""
        return sorted({key.topic for key in self.partitions} | set(self.topics))

    def replace(
        self, starts: Mapping[TopicPartition, Start], topics: tuple[str, ...] = ()
    ) -> list[AssignedPartition]:
        """Read these partitions and no others; those that stay keep their positions.

        Args:
            starts: Where to begin in those that are new.
            topics: Of which every partition is read, also those that will be added.

        Returns:
            The partitions that are no longer read.
        """
        before = self.partitions
        self.topics = topics
        self.partitions = MappingProxyType(
            {key: before.get(key) or AssignedPartition(key, start) for key, start in starts.items()}
        )
        self.version += 1
        return [it for key, it in before.items() if key not in self.partitions]

    def add(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Read further partitions.

        Args:
            starts: Where to begin in them.
        """
        added = {key: AssignedPartition(key, start) for key, start in starts.items()}
        self.partitions = MappingProxyType({**added, **self.partitions})
        self.version += 1

    def give_up(self, topic: str) -> None:
        """Read a topic no longer as a whole.

        Args:
            topic: Its name.
        """
        self.topics = tuple(it for it in self.topics if it != topic)
        self.version += 1

    def of(self, key: object) -> AssignedPartition:
        """Find a partition.

        Args:
            key: `TopicPartition`, or a pair like it.

        Returns:
            It.

        Raises:
            KprodError: It is not assigned.
            TypeError: It is no topic and partition.
        """
        wanted = as_partition(key)
        found = self.partitions.get(wanted)
        if found is None:
            raise KprodError(
                f"partition {wanted.partition} of topic {wanted.topic!r} is not assigned to this"
                " consumer"
            )
        return found


def as_partition(given: object) -> TopicPartition:
    """Check what an application calls a partition.

    Args:
        given: `TopicPartition`, or a tuple of topic and number.

    Returns:
        The partition.

    Raises:
        TypeError: It is something else.
        ValueError: The name or the number cannot be a topic's or a partition's.
    """
    if not isinstance(given, tuple) or len(given) != len(TopicPartition._fields):
        raise TypeError(f"a partition is TopicPartition(topic, partition), not {given!r:.80}")
    topic, partition = given
    if not isinstance(topic, str) or not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(f"a partition is TopicPartition(topic, partition), not {given!r:.80}")
    check_topic(topic)
    if not 0 <= partition <= PARTITION_MAX:
        raise ValueError(f"partition must be from 0 to {PARTITION_MAX}, not {partition}")
    return TopicPartition(topic, partition)


def check_topic(topic: object) -> str:
    """Check a topic's name.

    Args:
        topic: As the application gave it.

    Returns:
        The name.

    Raises:
        TypeError: It is no text.
        ValueError: No topic can have this name.
    """
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a text, not {type(topic).__name__}")
    fault = name_fault(topic)
    if fault is not None:
        raise ValueError(fault)
    return topic


def as_partitions(given: Iterable[object]) -> list[TopicPartition]:
    """Check partitions as an application gave them.

    Args:
        given: An iterable of partitions, not one partition.

    Returns:
        Each once, in order.

    Raises:
        TypeError: It is no iterable of partitions.
        ValueError: A name or number is impossible.
    """
    if isinstance(given, (str, TopicPartition)):
        raise TypeError("give a list of TopicPartition, not one of them")
    return list(dict.fromkeys(as_partition(each) for each in given))
