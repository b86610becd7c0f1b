"""One of the broker's data directories: its lock, shutdown mark, checkpoints and partitions.

Thread-safety: the broker's thread.
Source: Kafka LogManager (4.3), for a single log directory.
"""

import uuid
from collections.abc import Callable, Mapping

from kprod._core.layout import BatchLayout
from kprod.broker.internal_topics import UNUSED_TOPICS
from kprod.broker.log.checkpoint import (
    CHECKPOINTS,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    TEMPORARY_SUFFIX,
    Offsets,
    read_offsets,
    write_offsets,
)
from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.disk import Disk
from kprod.broker.log.file_deletion import delete_later
from kprod.broker.log.file_names import (
    DELETED_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    base_offset_of,
    partition_directory_name,
    partition_of,
    retired_directory_name,
)
from kprod.broker.log.guarded_disk import GuardedDisk, GuardedSyncer
from kprod.broker.log.identity import (
    IDENTITY_FILE,
    LOCK_FILE,
    DirectoryIdentity,
    mark_clean_close,
    new_directory_id,
    read_identity,
    read_topic_id,
    take_clean_close,
    write_identity,
    write_topic_id,
)
from kprod.broker.log.loading import Loaded, LoadOptions, load_log
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.syncer import Syncer
from kprod.broker.metadata_file import METADATA_FILE, ClusterFacts, write_facts
from kprod.broker.rejection import DirectoryRejected
from kprod.broker.scheduler import After
from kprod.guarded_log import guarded_logger
from kprod.model import TopicPartition

_FIRST_BYTES = BatchLayout.MAGIC_OFFSET + 1
_OURS = frozenset({*CHECKPOINTS, IDENTITY_FILE, METADATA_FILE})
_SPACE = uuid.UUID("6b70726f-6400-4000-8000-726574697265")
_logger = guarded_logger("kprod.broker")


class LogDirectory:  # noqa: PLR0904 - each checkpoint has its own
    """A data directory with some of the cluster's partitions.

    Attributes:
        on_failed: Called when the directory is given up, within the call that failed.
        path: The directory's absolute path.
        logs: The logs of its partitions, loaded or created.
        was_clean: Whether the last shutdown was clean.
    """

    __slots__ = (
        "_after",
        "_cleaned_offsets",
        "_delete_files",
        "_disk",
        "_high_watermarks",
        "_recovery_points",
        "_release",
        "_start_offsets",
        "_syncer",
        "logs",
        "on_failed",
        "path",
        "was_clean",
    )

    def __init__(
        self, disk: Disk, path: str, after: After, syncer: Syncer, *, is_alone: bool = True
    ) -> None:
        """Create an object for a directory, without accessing it.

        Args:
            disk: The disk that holds the file.
            path: The directory's absolute path.
            after: Schedules a call after a delay.
            syncer: Syncs closed segments.
            is_alone: Whether the cluster has no other directory; one of several is given up when a
                call of the operating system fails there.
        """
        self._after = after
        self._delete_files = delete_later(after)
        self._disk = GuardedDisk(
            disk, path, gives_up=not is_alone, on_failure=lambda error: self.on_failed(self, error)
        )
        self._syncer = GuardedSyncer(syncer, self._disk)
        self.on_failed: Callable[[LogDirectory, OSError], object] = _nothing
        self._release: Callable[[], None] | None = None
        self._recovery_points: Offsets = {}
        self._start_offsets: Offsets = {}
        self._high_watermarks: Offsets = {}
        self._cleaned_offsets: Offsets = {}
        self.path: str = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.was_clean: bool = False

    @property
    def failure(self) -> OSError | None:
        """The error that took the directory offline; None while it is in use."""
        return self._disk.failure

    def fail_after(self, call_count: int) -> None:
        """Let the directory fail, for a test.

        Args:
            call_count: Number of system calls that succeed before.
        """
        self._disk.fail_after(call_count)

    def space(self) -> tuple[int, int]:
        """Bytes of its volume: all of them, and those that are free."""
        return self._disk.space(self.path)

    def lock(self) -> None:
        """Create the directory if it does not exist, and lock it.

        Raises:
            DirectoryRejected: Another process or cluster uses it.
            OSError: It cannot be created or written.
        """
        if not self._disk.exists(self.path):
            self._disk.make_directory(self.path)
            self._disk.sync_directory(self.path.rpartition("/")[0] or "/")
        self._release = self._disk.lock(f"{self.path}/{LOCK_FILE}")

    def identify(self, cluster_id: str, node_id: int, timestamp_ms: int) -> None:
        """Check that the directory belongs to the cluster; a new directory is assigned to it.

        Args:
            cluster_id: The cluster's id.
            node_id: Id of the cluster's first broker.
            timestamp_ms: Wall clock time, for a new directory's id.

        Raises:
            DirectoryRejected: It belongs to another cluster.
        """
        known = read_identity(self._disk, self.path)
        if known is None:
            directory_id = new_directory_id(self.path, timestamp_ms)
            identity = DirectoryIdentity(cluster_id, node_id, directory_id)
            write_identity(self._disk, self.path, identity)
        elif known.cluster_id != cluster_id:
            raise DirectoryRejected(
                f"{self.path} is of cluster {known.cluster_id!r}, this one is {cluster_id!r}"
            )

    @property
    def is_used(self) -> bool:
        """Whether the directory exists and has an identity."""
        return self._disk.exists(f"{self.path}/{IDENTITY_FILE}")

    @property
    def has_facts(self) -> bool:
        """Whether the cluster's metadata is stored in the directory."""
        return self._disk.exists(f"{self.path}/{METADATA_FILE}")

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster that the directory belongs to; None for a new directory.

        Raises:
            DirectoryRejected: The identity has another version or cannot be parsed.
        """
        known = read_identity(self._disk, self.path)
        return None if known is None else known.cluster_id

    def take_over(self, cluster_id: str, node_id: int) -> None:
        """Assign a directory of another cluster to this one.

        Args:
            cluster_id: This cluster's id.
            node_id: Id of the cluster's first broker.
        """
        known = read_identity(self._disk, self.path)
        directory_id = known.directory_id if known is not None else ""
        write_identity(self._disk, self.path, DirectoryIdentity(cluster_id, node_id, directory_id))

    def partitions(self) -> list[TopicPartition]:
        """List the partitions that have a directory here."""
        names = [it.name for it in self._disk.entries(self.path) if it.is_directory]
        return [it for it in map(partition_of, names) if it is not None]

    def begin(self) -> None:
        """Remove the shutdown mark, read the checkpoints, and remove deleted partitions."""
        self.was_clean = take_clean_close(self._disk, self.path)
        self._recovery_points = read_offsets(self._disk, f"{self.path}/{RECOVERY_POINTS}")
        self._cleaned_offsets = read_offsets(self._disk, f"{self.path}/{CLEANED_OFFSETS}")
        self._start_offsets = read_offsets(self._disk, f"{self.path}/{START_OFFSETS}")
        for name, is_directory in self._disk.entries(self.path):
            path = f"{self.path}/{name}"
            if is_directory and name.endswith(DELETED_DIRECTORY_SUFFIX):
                self._disk.remove_directory(path)
            elif name.endswith(TEMPORARY_SUFFIX) and name.removesuffix(TEMPORARY_SUFFIX) in _OURS:
                self._disk.remove(path)

    def topic_id_of(self, partition: TopicPartition) -> uuid.UUID | None:
        """Read the topic id of a partition's directory; None if it has none."""
        return read_topic_id(self._disk, self._path_of(partition))

    def magics_of(self, partition: TopicPartition) -> set[int]:
        """Read the format of the first batch of each of a partition's segments.

        Returns:
            The magic bytes; none for segments without batches.
        """
        path = self._path_of(partition)
        names = [it.name for it in self._disk.entries(path) if base_offset_of(it.name) is not None]
        starts = [self._disk.read(f"{path}/{it}", 0, _FIRST_BYTES) for it in names]
        # A crash can leave zeros, which have no length and are cut off by the recovery.
        return {it[-1] for it in starts if len(it) == _FIRST_BYTES and any(it)}

    def is_empty(self, partition: TopicPartition) -> bool:
        """Whether a partition's directory is empty."""
        return not self._disk.entries(self._path_of(partition))

    def load(self, partition: TopicPartition, rules: SegmentRules) -> Loaded:
        """Load a partition that has a directory here.

        Args:
            partition: Its name.
            rules: The partition's segment rules.

        Returns:
            The log and its losses.
        """
        store = DirectoryStore(self._disk, self._path_of(partition), self._syncer)
        options = LoadOptions(
            rules=rules,
            was_clean=self.was_clean,
            recovery_point=self._recovery_points.get(partition, 0),
            start_offset=self._start_offsets.get(partition, 0),
            cleaned_offset=self._cleaned_offsets.get(partition, -1),
        )
        loaded = load_log(store, options)
        loaded.log.cleaned_offset = self._cleaned_offsets.get(partition, -1)
        self._add(partition, loaded.log)
        return loaded

    def create(self, partition: TopicPartition, topic_id: uuid.UUID) -> PartitionLog:
        """Create a partition's directory and its empty log.

        Returns:
            The log.

        Raises:
            OSError: It cannot be created, or an existing directory of that name cannot be renamed.
        """
        path = self._path_of(partition)
        if self._disk.exists(path) and self._disk.entries(path):
            if partition.topic in UNUSED_TOPICS:
                self.put_aside(partition)
            else:
                # The existing directory belongs to a deleted topic of that name and could not be
                # renamed before.
                self._remove_later(self._retire(partition, DELETED_DIRECTORY_SUFFIX), delay_ms=0)
        self._disk.make_directory(path)
        write_topic_id(self._disk, path, topic_id)
        self._disk.sync_directory(self.path)
        store = DirectoryStore(self._disk, path, self._syncer)
        log = PartitionLog(store)
        self._add(partition, log)
        return log

    def put_aside(self, partition: TopicPartition) -> str:
        """Rename a directory that belongs to no topic of the cluster; its content is kept.

        Returns:
            Its new name.
        """
        return self._retire(partition, STRAY_DIRECTORY_SUFFIX)

    def delete(self, partition: TopicPartition) -> None:
        """Rename the directory of a deleted partition, and remove it after the topic's delay.

        A directory that cannot be renamed now is put aside at the next start, since no topic has
        its id.
        """
        delay_ms = self.logs.pop(partition).rules.file_delete_delay_ms
        try:
            self.write_cleaned_offsets()  # a new topic of that name must not find it (KAFKA-14616)
            self._remove_later(self._retire(partition, DELETED_DIRECTORY_SUFFIX), delay_ms)
        except OSError as error:
            _logger.warning("the directory of deleted %s stays: %s", partition, error)

    def _remove_later(self, name: str, delay_ms: int) -> None:
        def remove() -> None:
            try:
                self._disk.remove_directory(f"{self.path}/{name}")
            except OSError as error:
                _logger.warning("%s/%s stays until the next start: %s", self.path, name, error)

        self._after(delay_ms, remove)

    def write_facts(self, facts: ClusterFacts) -> None:
        """Replace the file with the cluster's facts.

        Raises:
            OSError: It cannot be written.
        """
        write_facts(self._disk, self.path, facts)

    def write_recovery_points(self) -> None:
        """Write up to which offset each log is synced, if that has changed."""
        points = {name: log.recovery_point for name, log in self.logs.items()}
        if points != self._recovery_points:
            write_offsets(self._disk, f"{self.path}/{RECOVERY_POINTS}", points)
            self._recovery_points = points

    def write_cleaned_offsets(self) -> None:
        """Write up to which offset each log is compacted, if that has changed."""
        offsets = {name: log.cleaned_offset for name, log in self.logs.items()}
        offsets = {name: offset for name, offset in offsets.items() if offset >= 0}
        if offsets != self._cleaned_offsets:
            write_offsets(self._disk, f"{self.path}/{CLEANED_OFFSETS}", offsets)
            self._cleaned_offsets = offsets

    def write_start_offsets(self) -> None:
        """Write the start offsets that lie within a segment, if they have changed."""
        starts = {name: log.log_start_offset for name, log in self.logs.items()}
        starts = {name: offset for name, offset in starts.items() if offset}
        if starts != self._start_offsets:
            write_offsets(self._disk, f"{self.path}/{START_OFFSETS}", starts)
            self._start_offsets = starts

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks, if they have changed."""
        known = {name: high_watermarks[name] for name in self.logs if name in high_watermarks}
        if known != self._high_watermarks:
            write_offsets(self._disk, f"{self.path}/{HIGH_WATERMARKS}", known)
            self._high_watermarks = known

    def close(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Sync all logs, write the checkpoints, and mark the directory as cleanly closed.

        Raises:
            OSError: A log cannot be synced; without the mark, the next start checks it.
        """
        for log in self.logs.values():
            log.close()
        self.write_recovery_points()
        self.write_start_offsets()
        self.write_cleaned_offsets()
        self.write_high_watermarks(high_watermarks)
        mark_clean_close(self._disk, self.path)
        self.unlock()

    def unlock(self) -> None:
        """Release the lock, if it is held."""
        if self._release is not None:
            self._release()
            self._release = None

    def _add(self, partition: TopicPartition, log: PartitionLog) -> None:
        self.logs[partition] = log
        log.delete_files = self._delete_files
        log.on_cut = self._write_cut
        log.on_cleaned = self.write_cleaned_offsets

    def _write_cut(self) -> None:
        self.write_recovery_points()
        self.write_cleaned_offsets()

    def _retire(self, partition: TopicPartition, suffix: str) -> str:
        name = partition_directory_name(partition)
        unique = uuid.uuid5(_SPACE, f"{self.topic_id_of(partition)}/{name}")
        new_name = retired_directory_name(name, suffix, unique)
        while self._disk.exists(f"{self.path}/{new_name}"):
            unique = uuid.uuid5(_SPACE, unique.hex)
            new_name = retired_directory_name(name, suffix, unique)
        self._disk.rename(f"{self.path}/{name}", f"{self.path}/{new_name}")
        self._disk.sync_directory(self.path)
        return new_name

    def _path_of(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition_directory_name(partition)}"


def _nothing(directory: LogDirectory, error: OSError) -> None:
    """Do nothing."""
