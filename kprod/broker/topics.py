"""The topics of a cluster: names, ids, partitions, and the brokers of their replicas.

Topic ids come from a counter, for reproducible simulations; a recreated topic gets another id.

Thread-safety: the broker's thread.
Source: KIP-516 for topic ids.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator

from kprod.broker.config import EmbeddedConfig
from kprod.broker.rejection import Rejected
from kprod.broker.replication import Partition
from kprod.broker.topic import Topic
from kprod.broker.topic_checks import PARTITIONS_MAX, check_assignment, check_name
from kprod.broker.topic_config import TopicConfig
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode
from kprod.wording import counted

_TOPIC_ID_SPACE = uuid.UUID("6b70726f-6400-4000-8000-746f70696373")

MakePartition = Callable[[Topic, int], Partition]


class TopicRegistry:
    """All topics of the cluster.

    Attributes:
        node_ids: Ids of all brokers, including stopped ones.
        created_count: Number of topics ever created; ids are derived from it.
        partition_count: Number of partitions of all topics.

    Invariants.
        Topics, partitions and the text of their settings are within the cluster's bounds.
    """

    __slots__ = (
        "_by_id",
        "_by_name",
        "_config",
        "_drop_log",
        "_make_partition",
        "_save",
        "_settings_bytes",
        "created_count",
        "node_ids",
        "partition_count",
    )

    def __init__(
        self,
        config: EmbeddedConfig,
        node_ids: list[int],
        *,
        make_partition: MakePartition,
        save: Callable[[], None],
        drop_log: Callable[[TopicPartition], None],
    ) -> None:
        """Start with no topics.

        Args:
            config: Settings with the limits.
            node_ids: Ids of all brokers, including stopped ones.
            make_partition: Creates a partition of a topic on the assigned brokers.
            save: Stores the topics, before a change becomes visible.
            drop_log: Deletes the log of a partition.
        """
        self._save = save
        self._drop_log = drop_log
        self._config = config
        self._settings_bytes = 0
        self.partition_count: int = 0
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self.created_count: int = 0
        self.node_ids: list[int] = node_ids
        self._make_partition = make_partition

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over all topics, oldest first."""
        return iter(self._by_name.values())

    def __len__(self) -> int:
        """Number of topics."""
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        """Return the topic with a name."""
        return self._by_name.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """Return the topic with an id."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return a partition; None if the topic or the partition number is unknown."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def led_partition(self, name: str, index: int, node_id: int) -> Partition:
        """Return a partition that a given broker must lead.

        Args:
            name: Name of the topic.
            index: The partition number.
            node_id: The broker that got the request.

        Returns:
            The partition.

        Raises:
            Rejected: It is unknown, another broker leads it, or its directory has failed.
        """
        partition = self.partition(name, index)
        if partition is None:
            raise Rejected(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}"
            )
        code = partition.why_not_led_by(node_id)
        if code:
            raise Rejected(code, f"broker {node_id} does not lead {partition.name}")
        return partition

    def partitions(self) -> Iterator[Partition]:
        """Iterate over all partitions."""
        return (it for topic in self._by_name.values() for it in topic.partitions)

    def create(  # noqa: PLR0913 - a topic's own facts, all but the name by keyword
        self,
        name: str,
        *,
        partition_count: int,
        replication_factor: int,
        config: TopicConfig,
        overrides: dict[str, str | None] | None = None,
        assignment: list[list[int]] | None = None,
        dry_run: bool = False,
    ) -> Topic:
        """Create a topic.

        Args:
            name: A valid, unused name.
            partition_count: 1 to 100,000.
            replication_factor: 1 to the number of brokers.
            config: The effective settings.
            overrides: The topic's own settings, as text.
            assignment: Brokers of each partition; None spreads them round robin.
            dry_run: Only validate.

        Returns:
            The topic with its partitions; a dry run returns it without partitions and does not
            register it.

        Raises:
            Rejected: The name is invalid or in use, or a number is out of bounds.
        """
        self.check_new(name, partition_count, replication_factor)
        settings_bytes = _settings_bytes(overrides or {})
        self._check_settings(settings_bytes)
        topic = Topic(
            name,
            uuid.uuid5(_TOPIC_ID_SPACE, f"{self.created_count + 1}/{name}"),
            config,
            overrides=overrides or {},
            replication_factor=replication_factor,
            partition_count=partition_count,
        )
        if dry_run:
            return topic
        self.created_count += 1
        self._add(topic)
        try:
            self._grow(topic, partition_count, assignment)
        except Rejected:
            self._remove(topic)
            self._save_if_possible()
            raise
        return topic

    def restore(self, topic: Topic, assignment: list[list[int]]) -> None:
        """Register a stored topic.

        Args:
            topic: A topic without partitions; its name must be unused.
            assignment: Brokers of each partition.
        """
        self._add(topic)
        topic.assignment = assignment
        self._make_partitions(topic)

    def _add(self, topic: Topic) -> None:
        self._settings_bytes += _settings_bytes(topic.overrides)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self._settings_bytes -= _settings_bytes(topic.overrides)

    def check_new(self, name: str, partition_count: int, replication_factor: int) -> None:
        """Check the name and the numbers of a new topic.

        Raises:
            Rejected: The name is invalid or in use, or a number is out of bounds.
        """
        check_name(name)
        if name in self._by_name:
            raise Rejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists")
        if not 1 <= partition_count <= PARTITIONS_MAX:
            raise Rejected(
                ErrorCode.INVALID_PARTITIONS,
                f"{partition_count} partitions; 1 to {PARTITIONS_MAX} are possible",
            )
        if not 1 <= replication_factor <= len(self.node_ids):
            raise Rejected(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {replication_factor}; 1 to {len(self.node_ids)}, the number of"
                " brokers, are possible",
            )
        if len(self._by_name) >= self._config.topics_max:
            raise Rejected(
                ErrorCode.POLICY_VIOLATION,
                f"there are as many topics as may be: {len(self._by_name)} (topics_max)",
            )
        self._check_room(partition_count)

    def grow(
        self,
        name: str,
        partition_count: int,
        *,
        assignment: list[list[int]] | None = None,
        dry_run: bool = False,
    ) -> None:
        """Add partitions to a topic.

        Args:
            name: Name of the topic.
            partition_count: The new number of partitions, above the present one.
            assignment: Brokers of each new partition; None spreads them round robin.
            dry_run: Only validate.

        Raises:
            Rejected: The topic is unknown, the number out of bounds, or the assignment unfit.
        """
        topic = self._by_name.get(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        present = len(topic.partitions)
        if not present < partition_count <= PARTITIONS_MAX:
            partitions = counted(present, "partition")
            raise Rejected(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {partitions}; the new number must be larger, and at most"
                f" {PARTITIONS_MAX}, not {partition_count}",
            )
        self._check_room(partition_count - present)
        if assignment is not None:
            check_assignment(assignment, topic.replication_factor, self.node_ids)
            if len(assignment) != partition_count - present:
                raise Rejected(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{partition_count - present} partitions are to be added, and "
                    f"{len(assignment)} are assigned",
                )
        if not dry_run:
            self._grow(topic, partition_count, assignment)

    def configure(
        self,
        topic: Topic,
        config: TopicConfig,
        overrides: dict[str, str | None],
        *,
        dry_run: bool,
    ) -> None:
        """Change a topic's settings.

        Args:
            topic: A registered topic.
            config: The effective settings.
            overrides: The topic's own settings, as text.
            dry_run: Only validate.

        Raises:
            Rejected: The settings of all topics have too much text, or cannot be stored; nothing
                has changed.
        """
        added_bytes = _settings_bytes(overrides) - _settings_bytes(topic.overrides)
        self._check_settings(added_bytes)
        if dry_run:
            return
        before, topic.overrides = topic.overrides, overrides
        try:
            self._write_down(f"settings of topic {topic.name!r} cannot be changed")
        except Rejected:
            topic.overrides = before
            raise
        self._settings_bytes += added_bytes
        topic.config = config
        for partition in topic.partitions:
            partition.configure(config)

    def _check_settings(self, added_bytes: int) -> None:
        if self._settings_bytes + added_bytes > self._config.topic_settings_bytes_max:
            raise Rejected(
                ErrorCode.POLICY_VIOLATION,
                f"{added_bytes} more bytes of settings; all topics have {self._settings_bytes} and "
                f"may have {self._config.topic_settings_bytes_max} (topic_settings_bytes_max)",
            )

    def delete(self, name: str) -> Topic:
        """Remove a topic.

        Returns:
            The removed topic, so that the caller can complete requests that wait for its
            partitions.

        Raises:
            Rejected: The topic is unknown, or the change cannot be stored.
        """
        topic = self._by_name.get(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        self._remove(topic)
        try:
            self._write_down(f"topic {name!r} cannot be deleted")
        except Rejected:
            self._add(topic)
            raise
        self.partition_count -= len(topic.partitions)
        return topic

    def _check_room(self, addition_count: int) -> None:
        if self.partition_count + addition_count > self._config.partitions_max:
            raise Rejected(
                ErrorCode.POLICY_VIOLATION,
                f"{addition_count} more partitions; all topics together have "
                f"{self.partition_count} and may have {self._config.partitions_max} "
                "(partitions_max)",
            )

    def _grow(self, topic: Topic, partition_count: int, assignment: list[list[int]] | None) -> None:
        present = len(topic.partitions)
        added = range(present, partition_count)
        topic.assignment += assignment or [self._spread(index, topic) for index in added]
        try:
            self._write_down(f"partitions of topic {topic.name!r} cannot be made")
        except Rejected:
            del topic.assignment[present:]
            raise
        try:
            self._make_partitions(topic)
        except OSError as error:
            self._take_back(topic, present)
            text = f"partitions of topic {topic.name!r} cannot be made: {error}"
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, text) from error

    def _take_back(self, topic: Topic, present: int) -> None:
        """Remove new partitions, if not all of them could be created."""
        for partition in topic.partitions[present:]:
            self._drop_log(partition.name)
        self.partition_count -= topic.partition_count - present
        topic.partition_count = present
        del topic.partitions[present:]
        del topic.assignment[present:]
        if present:
            self._save_if_possible()

    def _make_partitions(self, topic: Topic) -> None:
        present = len(topic.partitions)
        topic.partition_count = len(topic.assignment)
        self.partition_count += topic.partition_count - present
        for index in range(present, topic.partition_count):
            topic.partitions.append(self._make_partition(topic, index))

    def _write_down(self, failing: str) -> None:
        try:
            self._save()
        except OSError as error:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{failing}: {error}") from error

    def _save_if_possible(self) -> None:
        """Store the topics again; if that fails, the next start creates empty partitions."""
        with contextlib.suppress(OSError):
            self._save()

    def _spread(self, index: int, topic: Topic) -> list[int]:
        count = len(self.node_ids)
        return [self.node_ids[(index + step) % count] for step in range(topic.replication_factor)]


def _settings_bytes(overrides: dict[str, str | None]) -> int:
    return sum(len(name) + len(value or "") for name, value in overrides.items())
