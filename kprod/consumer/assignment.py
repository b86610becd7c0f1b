# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The partitions that a consumer reads, and the topics that it reads as a whole.

The mapping of partitions is replaced, never modified, so that any thread may iterate over it.

Thread-safety: one thread at a time changes it, which `ConsumerEngine` ensures; any thread reads it.
Source: Kafka SubscriptionState (clients 4.3.1).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kprod.consumer.position import AssignedPartition, Start
from kprod.consumer.topic_pattern import TopicPattern
from kprod.errors import KprodError
from kprod.model import TopicPartition
from kprod.topic_name import name_fault

PARTITION_MAX = 2**31 - 1


class Assignment:
    """The partitions of one consumer.

    Attributes:
        partitions: The assigned partitions, by topic and partition.
        topics: The topics that are read as a whole; empty after `assign`.
        shared: The topics that are read as a member of a group, which assigns their partitions;
            None if the consumer is no member.
        pattern: The pattern that determines `topics` or `shared`; None if they are named.
        version: Increases with each change.
    """

    def __init__(self) -> None:
        """Start with no partitions."""
        self._assigned: dict[TopicPartition, AssignedPartition] = {}
        self.partitions: Mapping[TopicPartition, AssignedPartition] = MappingProxyType({})
        self.topics: tuple[str, ...] = ()
        self.shared: tuple[str, ...] | None = None
        self.pattern: TopicPattern | None = None
        self.version: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is assigned."""
        is_subscribed = self.topics or self.shared or self.pattern is not None
        return not self.partitions and not is_subscribed

    def has(self, partition: AssignedPartition) -> bool:
        """Return whether a partition is assigned, and was not assigned again since.

        Args:
            partition: A partition that is or was assigned.
        """
        return self._assigned.get(partition.key) is partition

    @property
    def names(self) -> list[str]:
        """The topics whose metadata is needed."""
        return sorted({key.topic for key in self.partitions} | {*self.topics, *(self.shared or ())})

    def replace(
        self,
        starts: Mapping[TopicPartition, Start],
        topics: tuple[str, ...] = (),
        shared: tuple[str, ...] | None = None,
        pattern: TopicPattern | None = None,
    ) -> None:
        """Replace the assignment; partitions that remain keep their positions.

        Args:
            starts: Start positions of the new partitions.
            topics: Topics that are read as a whole; partitions added later are read, too.
            shared: Topics that are read as a member of a group; None for no member.
            pattern: The pattern that determines the topics; None if they are named.
        """
        before = self.partitions
        assigned = {
            key: before.get(key) or AssignedPartition(key, start) for key, start in starts.items()
        }
        partitions = MappingProxyType(assigned)
        # No call between these: an exception of a signal handler leaves the old or the new one.
        self.topics = topics
        self.shared = shared
        self.pattern = pattern
        self.partitions = partitions
        self._assigned = assigned
        self.version += 1

    def share(self, topics: tuple[str, ...], pattern: TopicPattern | None) -> None:
        """Change the topics that are read as a member of a group.

        Args:
            topics: Topics; the group assigns their partitions.
            pattern: The pattern that determines them; None if they are named.
        """
        self.shared = topics
        self.pattern = pattern
        self.version += 1

    def add(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Assign additional partitions.

        Args:
            starts: Their start positions.
        """
        added = {key: AssignedPartition(key, start) for key, start in starts.items()}
        assigned = {**added, **self.partitions}
        partitions = MappingProxyType(assigned)
        self.partitions = partitions
        self._assigned = assigned
        self.version += 1

    def give_up(self, topic: str) -> None:
        """Stop reading a topic as a whole.

        Args:
            topic: The topic's name.
        """
        self.topics = tuple(it for it in self.topics if it != topic)
        self.version += 1

    def of(self, key: object) -> AssignedPartition:
        """Return an assigned partition.

        Args:
            key: A `TopicPartition` or an equal tuple.

        Returns:
            It.

        Raises:
            KprodError: The partition is not assigned.
            TypeError: The key is not a topic and a partition.
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
    """Convert an application's argument to a partition.

    Args:
        given: A `TopicPartition`, or a tuple of topic and partition number.

    Returns:
        The partition.

    Raises:
        TypeError: The argument is something else.
        ValueError: The topic name or the partition number is invalid.
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
    """Check a topic name from the application.

    Args:
        topic: The application's argument.

    Returns:
        The name.

    Raises:
        TypeError: The name is not a string.
        ValueError: The name is invalid.
    """
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a text, not {type(topic).__name__}")
    fault = name_fault(topic)
    if fault is not None:
        advice = "; subscribe(pattern=…) reads all topics that match" if topic[:1] == "^" else ""
        raise ValueError(fault + advice)
    return topic


def as_partitions(given: Iterable[object]) -> list[TopicPartition]:
    """Convert an application's argument to a list of partitions.

    Args:
        given: An iterable of partitions, not a single partition.

    Returns:
        The partitions in order, without duplicates.

    Raises:
        TypeError: The argument is not an iterable of partitions.
        ValueError: A topic name or a partition number is invalid.
    """
    if isinstance(given, (str, TopicPartition)):
        raise TypeError("give a list of TopicPartition, not one of them")
    return list(dict.fromkeys(as_partition(each) for each in given))
