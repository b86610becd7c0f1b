"""Where a cluster's partitions get their logs from: memory, or directories.

Thread-safety: the broker's thread.
Source: kprod's own; Kafka's LogManager for the role.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.metadata_file import ClusterFacts, TopicFacts
from kprod.model import TopicPartition
from kprod.wording import counted

MEMORY_PATH = "memory"
"""Stands for a directory where there is none."""

RulesOf = Callable[[TopicFacts], SegmentRules]


class DirectorySpace(NamedTuple):
    """A directory, and the space on its volume.

    Attributes:
        path: Its path.
        total_bytes: Of the volume.
        usable_bytes: Free bytes of it.
    """

    path: str
    total_bytes: int
    usable_bytes: int


class LoadSummary(NamedTuple):
    """Summary of a loading.

    Attributes:
        partition_count: Partitions.
        segment_count: Their segments.
        recovered_count: Segments that were checked batch by batch.
        size_bytes: Of all segments.
        cut_bytes: That were unsound, and are gone.
    """

    partition_count: int
    segment_count: int
    recovered_count: int
    size_bytes: int
    cut_bytes: int

    def __str__(self) -> str:
        """Say so in one line."""
        text = (
            f"{counted(self.partition_count, 'partition')} with "
            f"{counted(self.segment_count, 'segment')} and {self.size_bytes} bytes loaded"
        )
        if self.recovered_count:
            checked = counted(self.recovered_count, "segment")
            text += f", {checked} checked, {self.cut_bytes} torn bytes cut off"
        return text


OnLoad = Callable[[LoadSummary, int], object]
"""Gets a summary of the partitions that were loaded so far, and the number of all of them."""


class PartitionLogs(Protocol):
    """The logs of all partitions.

    Attributes:
        is_durable: Whether they survive the process.
        on_load: Is called after each partition that `open` loads, if it is given.
    """

    is_durable: bool
    on_load: OnLoad | None

    @property
    def summary(self) -> LoadSummary | None:
        """Summary of the loading; None where nothing can be loaded."""

    def open(self, rules_of: RulesOf) -> ClusterFacts | None:
        """Load everything; the partitions are then there for `log_of`.

        Args:
            rules_of: Gives the rules of a topic's segments.

        Returns:
            Stored metadata of the cluster; None for a new one.

        Raises:
            DirectoryRejected: A directory cannot be used.
            OSError: A file cannot be read or written.
        """

    def log_of(self, partition: TopicPartition, topic_id: uuid.UUID) -> PartitionLog:
        """Give a partition its log: the one that was loaded, or an empty one.

        Raises:
            OSError: It cannot be made.
        """

    def path_of(self, partition: TopicPartition) -> str:
        """The directory that a partition's log is in."""

    def spaces(self) -> Sequence[DirectorySpace]:
        """All directories, with the space on their volumes; none in memory."""

    def drop(self, partition: TopicPartition) -> None:
        """Give up the log of a partition that was deleted."""

    def write_down(self, facts: ClusterFacts) -> None:
        """Store metadata of the cluster.

        Raises:
            OSError: It cannot be written.
        """

    def close(self, facts: ClusterFacts) -> None:
        """Sync everything and say that it was; a second call does nothing.

        Raises:
            OSError: Something cannot be written; the next start will then check the logs.
        """

    def abandon(self) -> None:
        """Give up all files as they are, as the end of the process would."""


class MemoryLogs:
    """Logs that go with the process."""

    __slots__ = ("is_durable", "on_load")

    def __init__(self) -> None:
        """Keep nothing."""
        self.is_durable: bool = False
        self.on_load: OnLoad | None = None

    @property
    def summary(self) -> None:
        """Nothing is ever loaded."""

    def open(self, rules_of: RulesOf) -> ClusterFacts | None:
        """There is never anything to load."""

    def log_of(self, partition: TopicPartition, topic_id: uuid.UUID) -> PartitionLog:  # noqa: ARG002
        """Make an empty log."""
        return PartitionLog(MemoryStore())

    def path_of(self, partition: TopicPartition) -> str:  # noqa: ARG002 - of any
        """Name the memory."""
        return MEMORY_PATH

    def spaces(self) -> Sequence[DirectorySpace]:
        """There is none."""
        return ()

    def drop(self, partition: TopicPartition) -> None:
        """Do nothing: the log goes with its partition."""

    def write_down(self, facts: ClusterFacts) -> None:
        """Do nothing."""

    def close(self, facts: ClusterFacts) -> None:
        """Do nothing."""

    def abandon(self) -> None:
        """Do nothing."""
