"""Provides the logs of a cluster's partitions, from memory or from directories.

Thread-safety: the broker's thread.
Source: kprod's own; Kafka's LogManager has this role.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kprod.broker.log.flush_stats import FlushStats
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.metadata_file import ClusterFacts, TopicFacts
from kprod.clock import Clock
from kprod.model import TopicPartition
from kprod.wording import counted

MEMORY_PATH = "memory"
"""The path that is reported for logs in memory."""

UNKNOWN_BYTES = -1
"""Stands for a size that cannot be told."""

RulesOf = Callable[[TopicFacts], SegmentRules]


class DirectorySpace(NamedTuple):
    """A directory, and the size of its volume.

    Attributes:
        path: The directory's path.
        total_bytes: Size of the volume.
        usable_bytes: Free bytes on the volume.
        is_offline: Whether the directory has failed; both sizes are then `UNKNOWN_BYTES`.
    """

    path: str
    total_bytes: int
    usable_bytes: int
    is_offline: bool = False


class LoadSummary(NamedTuple):
    """Results of loading all partitions.

    Attributes:
        partition_count: Number of partitions.
        segment_count: Number of segments.
        recovered_count: Number of segments that were checked batch by batch.
        size_bytes: Total size of all segments.
        cut_bytes: Number of corrupt bytes, which were dropped.
    """

    partition_count: int
    segment_count: int
    recovered_count: int
    size_bytes: int
    cut_bytes: int

    def __str__(self) -> str:
        """Format the results as one line."""
        text = (
            f"{counted(self.partition_count, 'partition')} with "
            f"{counted(self.segment_count, 'segment')} and {self.size_bytes} bytes loaded"
        )
        if self.recovered_count:
            checked = counted(self.recovered_count, "segment")
            text += f", {checked} checked, {self.cut_bytes} torn bytes cut off"
        return text


OnLoad = Callable[[LoadSummary, int], object]
"""Takes the results so far, and the number of all partitions."""


class PartitionLogs(Protocol):
    """The logs of all partitions.

    Attributes:
        flushes: Counts the flushes of all logs.
        is_durable: Whether the logs survive the process.
        on_load: If given, called after each partition that `open` loads.
    """

    flushes: FlushStats
    is_durable: bool
    on_load: OnLoad | None

    @property
    def summary(self) -> LoadSummary | None:
        """The results of loading; None if logs are not stored."""

    def open(self, rules_of: RulesOf) -> ClusterFacts | None:
        """Load all partitions; `log_of` then returns them.

        Args:
            rules_of: Returns the segment rules of a topic.

        Returns:
            The stored metadata of the cluster; None for a new cluster.

        Raises:
            DirectoryRejected: A directory cannot be used.
            OSError: A file cannot be read or written.
        """

    def log_of(self, partition: TopicPartition, topic_id: uuid.UUID) -> PartitionLog:
        """Return a partition's log: the loaded one, or a new one.

        Raises:
            OSError: The log cannot be created.
        """

    def path_of(self, partition: TopicPartition) -> str:
        """Return the directory that holds a partition's log."""

    def spaces(self) -> Sequence[DirectorySpace]:
        """The directories with their volumes' sizes; none for logs in memory."""

    @property
    def offline_count(self) -> int:
        """How many directories have failed."""

    def fail_directory(self, path: str, call_count: int) -> None:
        """Let a directory fail, for a test.

        Args:
            path: Path of the directory.
            call_count: Number of system calls that succeed before.

        Raises:
            ValueError: There is no such directory.
        """

    def drop(self, partition: TopicPartition) -> None:
        """Delete the log of a deleted partition."""

    def write_down(self, facts: ClusterFacts) -> None:
        """Store the cluster's metadata.

        Raises:
            OSError: It cannot be written.
        """

    def deliver_syncs(self) -> None:
        """Pass the results of background syncs to the logs; called in each step."""

    def close(self, facts: ClusterFacts) -> None:
        """Sync everything and mark the directories as cleanly closed; idempotent.

        Raises:
            OSError: Something cannot be written; the next start will check the logs.
        """

    def abandon(self) -> None:
        """Close all files without syncing, as the end of the process would."""


class MemoryLogs:
    """Logs in memory, which end with the process."""

    __slots__ = ("flushes", "is_durable", "on_load")

    def __init__(self, clock: Clock) -> None:
        """Start with no logs.

        Args:
            clock: The wall clock.
        """
        self.flushes: FlushStats = FlushStats(clock)
        self.is_durable: bool = False
        self.on_load: OnLoad | None = None

    @property
    def summary(self) -> None:
        """None: nothing is loaded."""

    def open(self, rules_of: RulesOf) -> ClusterFacts | None:
        """Return None, since nothing is ever stored."""

    def log_of(self, partition: TopicPartition, topic_id: uuid.UUID) -> PartitionLog:  # noqa: ARG002
        """Create an empty log."""
        return PartitionLog(MemoryStore())

    def path_of(self, partition: TopicPartition) -> str:  # noqa: ARG002 - of any
        """Return `MEMORY_PATH`."""
        return MEMORY_PATH

    def spaces(self) -> Sequence[DirectorySpace]:
        """Return nothing, since there is no directory."""
        return ()

    @property
    def offline_count(self) -> int:
        """Zero, since memory does not fail."""
        return 0

    def fail_directory(self, path: str, call_count: int) -> None:  # noqa: ARG002 - of any
        """Raise an error, since there is no directory."""
        raise ValueError(f"{path}: the cluster keeps its logs in memory, in no directory")

    def drop(self, partition: TopicPartition) -> None:
        """Do nothing: the log is freed with its partition."""

    def write_down(self, facts: ClusterFacts) -> None:
        """Do nothing."""

    def deliver_syncs(self) -> None:
        """Do nothing."""

    def close(self, facts: ClusterFacts) -> None:
        """Do nothing."""

    def abandon(self) -> None:
        """Do nothing."""
