"""Logs in one or more directories: assigns partitions to directories, loads and closes.

Rules.
    A new partition is created in the directory with the fewest partitions, the first one of
    several.
    The cluster's metadata is stored in the directory that has it already, else in the first one.
    One directory of several that fails is given up (`guarded_disk`): its partitions go offline, no
    new partition is created there, and it is not marked as cleanly closed. Without the directory
    that has the cluster's metadata no topic is created, changed or deleted.
    A partition that lies in two directories, or a directory of another cluster, is rejected before
    anything is written.
    A partition whose topic does not exist is renamed and reported, never removed.

Thread-safety: the broker's thread.
Source: Kafka LogManager (4.3).
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kprod.broker.internal_topics import UNUSED_TOPICS
from kprod.broker.log.adoption import adopt, check_adoptable
from kprod.broker.log.checkpoint_tasks import CheckpointTasks, HighWatermarks
from kprod.broker.log.disk import Disk
from kprod.broker.log.file_names import partition_directory_name
from kprod.broker.log.flush_stats import FlushStats
from kprod.broker.log.loading import Loaded
from kprod.broker.log.log_directory import LogDirectory
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.partition_logs import (
    UNKNOWN_BYTES,
    DirectorySpace,
    LoadSummary,
    OnLoad,
    RulesOf,
)
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.syncer import InlineSyncer, Syncer
from kprod.broker.metadata_file import METADATA_FILE, ClusterFacts, read_facts
from kprod.broker.rejection import DirectoryRejected
from kprod.broker.scheduler import After
from kprod.clock import Clock
from kprod.guarded_log import guarded_logger
from kprod.model import TopicPartition

_logger = guarded_logger("kprod.broker")
OnOffline = Callable[[Sequence[TopicPartition]], object]
_AT_ONCE = InlineSyncer()
_KAFKAS_RULES = SegmentRules(index_interval_bytes=4_096)


class Storage(NamedTuple):
    """The disk and the directories that hold the logs.

    Attributes:
        disk: The disk that holds the directories.
        directories: Absolute paths, at least one.
        syncer: Syncs closed segments; the default does so at once.
        adopts: Whether directories of another cluster, of Apache Kafka, are taken over.
    """

    disk: Disk
    directories: tuple[str, ...]
    syncer: Syncer = _AT_ONCE
    adopts: bool = False


def _nothing(partitions: Sequence[TopicPartition]) -> None:
    """Do nothing."""


class DurableLogs:
    """The logs of a cluster that stores them on disk.

    Attributes:
        flushes: Counts the flushes of all logs.
        is_durable: True.
        on_load: If given, called after each partition that `open` loads.
        on_offline: Called with the partitions of a directory that has failed, within the call that
            failed.
    """

    __slots__ = (
        "_adopts",
        "_checkpoints",
        "_clock",
        "_cluster_id",
        "_directories",
        "_directory_of",
        "_disk",
        "_facts_directory",
        "_high_watermarks",
        "_is_open",
        "_node_id",
        "_summary",
        "_syncer",
        "flushes",
        "is_durable",
        "on_load",
        "on_offline",
    )

    def __init__(
        self,
        storage: Storage,
        *,
        cluster_id: str,
        node_id: int,
        clock: Clock,
        after: After,
        high_watermarks: HighWatermarks,
    ) -> None:
        """Create an object for some directories, without accessing them.

        Args:
            storage: The directories.
            cluster_id: The cluster's id.
            node_id: Id of the cluster's first broker.
            clock: The wall clock.
            after: Schedules a call after a delay.
            high_watermarks: Returns the high watermarks of all partitions, for their checkpoint.
        """
        self._syncer = storage.syncer
        self._high_watermarks = high_watermarks
        self.is_durable: bool = True
        self.on_load: OnLoad | None = None
        self._disk = storage.disk
        self._adopts = storage.adopts
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._clock = clock
        self.on_offline: OnOffline = _nothing
        self.flushes: FlushStats = FlushStats(clock)
        self._directories = [
            LogDirectory(
                storage.disk, path, after, self._syncer, is_alone=len(storage.directories) == 1
            )
            for path in storage.directories
        ]
        for directory in self._directories:
            directory.on_failed = self._give_up
        self._checkpoints = CheckpointTasks(after, self._directories, high_watermarks)
        self._facts_directory = self._directories[0]
        self._directory_of: dict[TopicPartition, LogDirectory] = {}
        self._is_open = False
        self._summary = LoadSummary(0, 0, 0, 0, 0)

    def open(self, rules_of: RulesOf = lambda _: _KAFKAS_RULES) -> ClusterFacts | None:
        """Lock all directories and load every partition; see `PartitionLogs.open`."""
        try:
            facts = self._open(rules_of)
        except BaseException:
            self.abandon()
            raise
        self._is_open = True
        self._checkpoints.start()
        return facts

    @property
    def summary(self) -> LoadSummary:
        """Summarize the loading of the directories."""
        return self._summary

    def log_of(self, partition: TopicPartition, topic_id: uuid.UUID) -> PartitionLog:
        """Return a partition's log; a new one is created where the fewest partitions are.

        Returns:
            The log.

        Raises:
            OSError: It cannot be created, or all directories have failed.
        """
        directory = self._directory_of.get(partition)
        if directory is None:
            directory = min(self._in_use(), key=lambda it: len(it.logs))
            self._directory_of[partition] = directory
        log = directory.logs.get(partition) or directory.create(partition, topic_id)
        if log.syncs is not None:
            log.syncs.stats = self.flushes
        return log

    def path_of(self, partition: TopicPartition) -> str:
        """Return the directory that holds a partition's log."""
        return self._directory_of[partition].path

    def spaces(self) -> Sequence[DirectorySpace]:
        """Return all directories with their volumes' sizes."""
        return [_space(it) for it in self._directories]

    @property
    def offline_count(self) -> int:
        """Number of directories that have failed."""
        return sum(it.failure is not None for it in self._directories)

    def fail_directory(self, path: str, call_count: int) -> None:
        """Make a directory fail, for a test.

        Args:
            path: The directory's path.
            call_count: Number of calls of the operating system that succeed before.

        Raises:
            ValueError: The cluster has no such directory.
        """
        found = next((it for it in self._directories if it.path == path), None)
        if found is None:
            paths = ", ".join(it.path for it in self._directories)
            raise ValueError(f"{path} is none of the cluster's directories: {paths}")
        found.fail_after(call_count)

    def drop(self, partition: TopicPartition) -> None:
        """Rename a deleted partition's directory, to be removed later."""
        self._directory_of.pop(partition).delete(partition)

    def write_down(self, facts: ClusterFacts) -> None:
        """Replace the file with the cluster's metadata."""
        self._facts_directory.write_facts(facts)

    def deliver_syncs(self) -> None:
        """Pass the results of background syncs to the logs."""
        self._syncer.deliver()

    def close(self, facts: ClusterFacts) -> None:
        """Sync everything, mark each directory as cleanly closed, and release all locks.

        Raises:
            OSError: Something cannot be written, or all directories have failed.
        """
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._syncer.wait()
            if self._facts_directory.failure is None:
                self.write_down(facts)
            for directory in self._in_use():
                directory.close(self._high_watermarks())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close descriptors and release locks without writing anything."""
        self._is_open = False
        self._syncer.close()
        self._disk.close()
        for directory in self._directories:
            directory.unlock()

    def _in_use(self) -> list[LogDirectory]:
        left = [it for it in self._directories if it.failure is None]
        if not left:
            failure = self._directories[0].failure
            raise OSError(f"all directories have failed, {self._directories[0].path} by: {failure}")
        return left

    def _give_up(self, directory: LogDirectory, error: OSError) -> None:
        _logger.error(
            "%s has failed, and is not used until the next start; partitions offline: %d; by: %s",
            directory.path,
            len(directory.logs),
            error,
        )
        self.on_offline(list(directory.logs))

    def _open(self, rules_of: RulesOf) -> ClusterFacts | None:
        if self._adopts:
            check_adoptable(self._directories)
        for directory in self._directories:
            directory.lock()
        if self._adopts:
            self._adopt()
        for directory in self._directories:
            directory.identify(self._cluster_id, self._node_id, self._clock.timestamp_ms())
        found = self._found()
        facts = self._read_facts()
        if facts is None and found:
            partition, directory = next(iter(found.items()))
            raise DirectoryRejected(
                f"{directory.path} has directories with names of partitions, such as "
                f"{partition_directory_name(partition)}, and no {METADATA_FILE} knows their topics"
            )
        for directory in self._directories:
            directory.begin()
        if facts is not None:
            self._load(facts, found, rules_of)
        return facts

    def _adopt(self) -> None:
        adoption = adopt(
            self._directories, self._found(), cluster_id=self._cluster_id, node_id=self._node_id
        )
        if adoption is not None:
            _logger.warning("%s", adoption)

    def _report(self, directory: LogDirectory, partition: TopicPartition, loaded: Loaded) -> None:
        if loaded.cut_offset >= 0:
            _logger.warning(
                "%s/%s was cut at offset %d: %d bytes of its segment are gone, and %d files of "
                "later segments are kept as .deleted until the next start",
                directory.path,
                partition_directory_name(partition),
                loaded.cut_offset,
                loaded.cut_bytes,
                len(loaded.deleted),
            )
        summary = self._summary
        self._summary = LoadSummary(
            summary.partition_count + 1,
            summary.segment_count + len(loaded.log.segments),
            summary.recovered_count + loaded.recovered_count,
            summary.size_bytes + loaded.log.size_bytes,
            summary.cut_bytes + loaded.cut_bytes,
        )

    def _found(self) -> dict[TopicPartition, LogDirectory]:
        found: dict[TopicPartition, LogDirectory] = {}
        for directory in self._directories:
            for partition in directory.partitions():
                other = found.setdefault(partition, directory)
                if other is not directory:
                    raise DirectoryRejected(
                        f"partition {partition} is in {other.path} and in {directory.path}; "
                        "remove one of the two"
                    )
        return found

    def _read_facts(self) -> ClusterFacts | None:
        known: ClusterFacts | None = None
        for directory in self._directories:
            facts = read_facts(self._disk, directory.path)
            if facts is not None and known is not None:
                raise DirectoryRejected(
                    f"{self._facts_directory.path} and {directory.path} both have {METADATA_FILE}"
                )
            if facts is not None:
                known, self._facts_directory = facts, directory
        return known

    def _load(
        self,
        facts: ClusterFacts,
        found: Mapping[TopicPartition, LogDirectory],
        rules_of: RulesOf,
    ) -> None:
        owners = {
            TopicPartition(topic.name, index): topic
            for topic in facts.topics
            for index in range(len(topic.assignment))
        }
        for partition, directory in found.items():
            topic_id, owner = directory.topic_id_of(partition), owners.get(partition)
            if owner is not None and topic_id == owner.topic_id:
                rules = rules_of(owner)
                self._report(directory, partition, directory.load(partition, rules))
                self._directory_of[partition] = directory
                if self.on_load is not None:
                    self.on_load(self._summary, len(owners))
            elif owner is not None and directory.is_empty(partition):
                continue  # left by a broker that stopped before it wrote the topic's id
            elif owner is None and partition.topic in UNUSED_TOPICS:
                continue
            else:
                new_name = directory.put_aside(partition)
                _logger.warning(
                    "%s/%s is of no topic of the cluster; it is kept as %s",
                    directory.path,
                    partition,
                    new_name,
                )
        for partition in owners:
            if partition not in self._directory_of:
                _logger.warning("partition %s has no directory; it begins empty", partition)


def _space(directory: LogDirectory) -> DirectorySpace:
    try:
        return DirectorySpace(directory.path, *directory.space())
    except OSError:
        return DirectorySpace(directory.path, UNKNOWN_BYTES, UNKNOWN_BYTES, is_offline=True)
