"""One partition's log: its segments in the order of their offsets.

Batches are stored as they were sent, compressed or not; the log reads only their headers. The last
segment is the active one: it gets all appends and is never dropped.

Invariants.
    Offsets never change and never repeat. Segments do not overlap, and the first base <=
    log_start_offset <= log_end_offset. size_bytes is the sum of the segments' sizes. The first
    append creates the first segment, since a cluster may have 100,000 partitions that are never
    written.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog and LocalLog (4.3).
"""

import bisect
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.batch_rewrite import rewrite_offsets
from kprod.broker.log.epochs import EPOCH_FILE, LeaderEpochs
from kprod.broker.log.file_deletion import DeleteFiles, delete_at_once
from kprod.broker.log.file_names import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    base_offset_of,
    segment_file_name,
)
from kprod.broker.log.log_syncs import LogSyncs
from kprod.broker.log.open_transactions import EndedTransaction
from kprod.broker.log.producer_state import ProducerStates
from kprod.broker.log.segment import Segment
from kprod.broker.log.segment_rules import (
    UNKNOWN_LIMITS,
    NextBatch,
    RollLimits,
    SegmentRules,
    must_roll,
    roll_limits,
)
from kprod.broker.log.store import Store

DEFAULT_RULES = SegmentRules()
_BASE_OFFSET = attrgetter("base_offset")


class PartitionLog:  # noqa: PLR0904 - what retention, compaction and loading may do to it, too
    """The log of one partition.

    Attributes:
        cleaned_offset: All records below this offset were compacted; −1 if none were.
        cut_count: Number of truncations.
        delete_files: Deletes the files of a dropped segment.
        epochs: The leader epochs with their start offsets.
        log_start_offset: First offset that can be read.
        log_end_offset: Offset of the next record.
        name: The partition's name; also the seed of the segments' jitter.
        producers: The state of idempotent producers; the log's owner updates it.
        roll_count: Number of segments that were started.
        on_cleaned: Called when `cleaned_offset` has changed, to write the checkpoint.
        on_cut: Called when the recovery point was lowered; the checkpoint must be written at once.
        size_bytes: Total size of all segments.
        syncs: The recovery point and the syncs of a durable log; None in memory.
    """

    __slots__ = (
        "_limits",
        "_rules",
        "_saved_epoch",
        "_segments",
        "_store",
        "cleaned_offset",
        "cut_count",
        "delete_files",
        "epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "on_cleaned",
        "on_cut",
        "producers",
        "roll_count",
        "size_bytes",
        "syncs",
    )

    def __init__(
        self,
        store: Store,
        *,
        rules: SegmentRules = DEFAULT_RULES,
        segments: Sequence[Segment] = (),
        epochs: LeaderEpochs | None = None,
        start_offset: int = 0,
    ) -> None:
        """Create a log.

        Args:
            store: The store of this log's files.
            rules: The segment rules.
            segments: The loaded segments, oldest first, without overlap.
            start_offset: Start offset of a log without segments.
            epochs: The leader epochs of the segments' batches; None for an empty log.
        """
        self._store = store
        self.delete_files: DeleteFiles = delete_at_once
        self.name: object = None
        self._rules = rules
        self._limits: RollLimits = UNKNOWN_LIMITS
        self._segments = list(segments)
        self.epochs: LeaderEpochs = LeaderEpochs() if epochs is None else epochs
        self._saved_epoch = self.epochs.latest_epoch
        self.producers: ProducerStates = ProducerStates()
        self.cleaned_offset: int = -1
        self.cut_count: int = 0
        self.roll_count: int = 0
        self.on_cleaned: Callable[[], None] = _nothing
        self.on_cut: Callable[[], None] = _nothing
        self.log_start_offset: int = segments[0].base_offset if segments else start_offset
        self.log_end_offset: int = segments[-1].next_offset if segments else start_offset
        self.syncs: LogSyncs | None = (
            LogSyncs(store, self.log_end_offset) if store.is_durable else None
        )
        self.size_bytes: int = sum(it.size_bytes for it in segments)

    def __str__(self) -> str:
        """Describe where the log is stored."""
        return str(self._store)

    @property
    def rules(self) -> SegmentRules:
        """The segment rules; new ones apply from the next append on."""
        return self._rules

    @rules.setter
    def rules(self, rules: SegmentRules) -> None:
        self._rules = rules
        self._limits = UNKNOWN_LIMITS

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first; the last one is the active one."""
        return self._segments

    def append(
        self, batch: RecordBatch, encoded: memoryview, *, leader_epoch: int, now_ms: int = 0
    ) -> int:
        """Assign offsets to a batch and append it.

        Args:
            batch: A validated batch; its own offset and epoch are ignored.
            encoded: The same bytes, writable; the log may keep the buffer.
            leader_epoch: Epoch of the appending leader.
            now_ms: Wall clock time, for segments whose batches have no timestamps.

        Returns:
            The batch's base offset.

        Raises:
            OSError: The batch cannot be written; the log is unchanged.
        """
        base_offset = self.log_end_offset
        size_bytes = len(encoded)
        last_offset = base_offset + batch.last_offset_delta
        timestamp_ms = batch.max_timestamp_ms
        end_bytes_max, last_offset_max, timestamp_max_ms = self._limits
        if (
            not self._segments
            or self._segments[-1].size_bytes + size_bytes > end_bytes_max
            or last_offset > last_offset_max
            or timestamp_ms > timestamp_max_ms
        ):
            self._maybe_roll(NextBatch(size_bytes, last_offset, timestamp_ms, now_ms))
        if leader_epoch != self._saved_epoch:
            self._assign_epoch(leader_epoch, base_offset)
        rewrite_offsets(encoded, base_offset, leader_epoch)
        active = self._segments[-1]
        active.append(encoded, last_offset, timestamp_ms)
        if timestamp_ms < 0:
            active.created_ms = now_ms
        self.log_end_offset = last_offset + 1
        self.size_bytes += size_bytes
        return base_offset

    def roll(self, now_ms: int) -> None:
        """End the active segment and start a new one, unless the active one is empty.

        The old segment is synced in the background; its end is then the recovery point.

        Args:
            now_ms: Wall clock time.

        Raises:
            OSError: The new segment cannot be made.
        """
        base_offset = self.log_end_offset
        if self._segments:
            if not self._segments[-1].size_bytes:
                return  # the next segment would have the same name (KAFKA-6388)
            self._segments[-1].save_indexes(self._store)
            if self.syncs is not None:
                self._take_snapshot()
                self.syncs.end_segment(self._segments[-1], base_offset)
        file = self._store.create(segment_file_name(base_offset, LOG_SUFFIX))
        segment = Segment(file, base_offset, index_interval_bytes=self._rules.index_interval_bytes)
        segment.created_ms = now_ms
        self._segments.append(segment)
        self.roll_count += 1
        self._limits = UNKNOWN_LIMITS
        if self.syncs is not None:
            self.syncs.note_new_name()
            self.flush_later()

    def begin_epoch(self, leader_epoch: int, *, save: bool = True) -> None:
        """Start a leader epoch at the log's end, even if nothing is appended in it.

        Args:
            leader_epoch: An epoch above the newest one.
            save: Whether to store the epoch now; otherwise an append in it stores it.
        """
        if save:
            self._assign_epoch(leader_epoch, self.log_end_offset)
        else:
            self.epochs.assign(leader_epoch, self.log_end_offset)

    def read(
        self, offset: int, *, limit_offset: int, max_bytes: int, whole_first: bool = True
    ) -> list[memoryview]:
        """Read bytes from the batch that contains an offset; the last batch may be cut off.

        Args:
            offset: First offset wanted, within the log.
            limit_offset: The batch that contains this offset, and all later ones, are not returned.
            max_bytes: Maximum number of bytes; the first batch may exceed it.
            whole_first: Whether the first batch is returned whatever its size; otherwise nothing is
                returned if it does not fit.

        Returns:
            The bytes in pieces, all of one segment, each beginning with a batch; for a log in
            memory they are views, not copies.
        """
        if offset >= limit_offset:
            return []
        for index in range(self._index_of(offset), len(self._segments)):
            segment = self._segments[index]
            place = segment.place_of(offset)
            if place is None:
                continue  # the offset is beyond the segment's last batch
            position, first_bytes = place
            readable_bytes = _limit_position(segment, limit_offset) - position
            if first_bytes > max_bytes:
                if not whole_first:
                    return []
                max_bytes = first_bytes
            return segment.read(position, min(max_bytes, readable_bytes))
        return []

    def note_ended(self, transaction: EndedTransaction) -> None:
        """Add an aborted transaction to the index of the segment that has its marker."""
        self._segments[self._index_of(transaction.last_offset)].aborted.note_ended(transaction)

    def bytes_between(self, offset: int, limit_offset: int, *, enough: int) -> int:
        """Count the readable bytes between two offsets.

        Args:
            offset: An offset within the log.
            limit_offset: The end, exclusive.
            enough: Upper limit of the count; returned if the offsets are in different segments.

        Returns:
            The count, at most `enough`.
        """
        if offset >= limit_offset or not self._segments:
            return 0
        first, last = self._index_of(offset), self._index_of(limit_offset - 1)
        if first != last:
            return enough
        segment = self._segments[first]
        place = segment.place_of(offset)
        if place is None:
            return 0
        return min(_limit_position(segment, limit_offset) - place[0], enough)

    def batches(self) -> Iterator[RecordBatch]:
        """Read all batches, oldest first; the log must not change during the iteration."""
        for segment in self._segments:
            for header in segment.headers():
                yield segment.batch(header)

    def batches_at(self, timestamp_ms: int) -> Iterator[RecordBatch]:
        """Read the batches whose largest timestamp is at or after a time, oldest first."""
        for segment in self._segments:
            if segment.largest.timestamp_ms < timestamp_ms:
                continue
            for header in segment.headers_at(timestamp_ms):
                if header.max_timestamp_ms >= timestamp_ms:
                    yield segment.batch(header)

    def truncate_to(self, offset: int) -> None:
        """Drop every batch with an offset at or beyond the given one.

        Args:
            offset: The new end, at least `log_start_offset`.
        """
        if not self._segments:
            return
        self.cut_count += 1
        self._limits = UNKNOWN_LIMITS
        self.cleaned_offset = min(self.cleaned_offset, offset)
        if self.syncs is not None and self.syncs.note_cut(offset):
            # First, so that the truncated range is checked again after a crash in the middle.
            self.on_cut()
        for name in self._store.names():
            snapshot = base_offset_of(name, SNAPSHOT_SUFFIX)
            if snapshot is not None and snapshot > offset:
                self._store.remove(name)
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._drop(len(self._segments) - 1)
        active = self._segments[-1]
        before = active.size_bytes
        active.truncate_to(offset)
        self.size_bytes -= before - active.size_bytes
        self.log_end_offset = active.next_offset
        if self.syncs is not None:
            self.syncs.note_cut(self.log_end_offset)
        if self.epochs.truncate_to(self.log_end_offset):
            self._save_epochs()

    def drop_oldest(self) -> None:
        """Drop the oldest segment, which must not be active; the next one becomes the first."""
        # The start moves before the file is removed, so that no read is directed to a missing file.
        self.raise_start(self._segments[1].base_offset)
        self._drop(0, (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX))

    def raise_start(self, offset: int) -> bool:
        """Raise the log's start offset; retention removes the files before it.

        Args:
            offset: The new start, at most `log_end_offset`; a lower one than the present is
                ignored.

        Returns:
            Whether the start moved.
        """
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.epochs.raise_start(offset):
            self._save_epochs()
        return True

    @property
    def store(self) -> Store:
        """The store of the log's files, for compaction."""
        return self._store

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace some adjacent segments, none of them active, by one."""
        first = self._segments.index(old[0])
        self.size_bytes += new.size_bytes - sum(it.size_bytes for it in old)
        self._segments[first : first + len(old)] = [new]

    @property
    def is_durable(self) -> bool:
        """Whether the log survives the process."""
        return self.syncs is not None

    @property
    def recovery_point(self) -> int:
        """All records below this offset are synced; in memory the log's end."""
        return self.log_end_offset if self.syncs is None else self.syncs.recovery_point

    def flush(self) -> None:
        """Sync everything that was appended.

        The active segment's indexes are not written: recovery rebuilds them.

        Raises:
            OSError: The sync fails, or an earlier one failed.
        """
        if self.syncs is not None:
            self.syncs.flush(self._unsynced(), self.log_end_offset)

    def flush_later(self) -> None:
        """Start the same in the background; if it fails, later appends are rejected.

        Raises:
            OSError: A file cannot be opened.
        """
        if self.syncs is not None:
            self.syncs.flush_later(self._unsynced(), self.log_end_offset)

    def close(self) -> None:
        """Sync the log, the active segment's indexes and the producers' state.

        Raises:
            OSError: The sync fails, or an earlier one failed.
        """
        if self.syncs is None or not self._segments:
            return
        self._segments[-1].save_indexes(self._store)
        self._take_snapshot()
        self._save_epochs()
        self.syncs.note_new_name()
        self.syncs.flush(self._unsynced(), self.log_end_offset)
        self.syncs.end_segment(self._segments[-1], self.log_end_offset)

    def _unsynced(self) -> Sequence[Segment]:
        return self._segments[self._index_of(self.recovery_point) :]

    def _take_snapshot(self) -> None:
        name = segment_file_name(self.log_end_offset, SNAPSHOT_SUFFIX)
        self._store.save(name, self.producers)

    def save_indexes(self) -> None:
        """Write the active segment's indexes; the others were written when their segments ended."""
        if self._segments:
            self._segments[-1].save_indexes(self._store)

    def _maybe_roll(self, batch: NextBatch) -> None:
        """Apply all rules, and remember the limits within which they need no second look."""
        if not self._segments or must_roll(self._segments[-1], self._rules, batch, self.name):
            self.roll(batch.now_ms)
        else:
            self._limits = roll_limits(self._segments[-1], self._rules, self.name)

    def _assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self.epochs.assign(leader_epoch, start_offset) or self._saved_epoch != leader_epoch:
            self._save_epochs()

    def _save_epochs(self) -> None:
        """Write the epochs immediately: an epoch that a follower was told must not be lost."""
        self._store.replace(EPOCH_FILE, self.epochs)
        self._saved_epoch = self.epochs.latest_epoch

    def _drop(self, index: int, suffixes: Sequence[str] = SEGMENT_SUFFIXES) -> None:
        segment = self._segments.pop(index)
        self.size_bytes -= segment.size_bytes
        names = [segment_file_name(segment.base_offset, suffix) for suffix in suffixes]
        self.delete_files(self._store, names, self._rules.file_delete_delay_ms)

    def _index_of(self, offset: int) -> int:
        if len(self._segments) < 2:  # noqa: PLR2004 - nothing to choose from
            return 0
        return max(bisect.bisect_right(self._segments, offset, key=_BASE_OFFSET) - 1, 0)


def _nothing() -> None:
    """Do nothing."""


def _limit_position(segment: Segment, limit_offset: int) -> int:
    if limit_offset >= segment.next_offset:
        return segment.size_bytes
    place = segment.place_of(limit_offset)
    return segment.size_bytes if place is None else place[0]
