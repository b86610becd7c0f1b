"""One partition's log: segments in the order of their offsets.

Batches are kept as they were sent, compressed bytes included; the log reads only headers. The last
segment is the active one: appends go there, and it is never dropped.

Invariants.
    Offsets never change and never repeat.
    Segments do not overlap, and the first base <= log_start_offset. The first segment is made by
    the first append: a cluster may have 100,000 partitions that nobody writes to.
    log_start_offset <= log_end_offset; size_bytes is the sum of the segments' sizes.

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
from kprod.broker.log.open_transactions import EndedTransaction
from kprod.broker.log.producer_state import ProducerStates
from kprod.broker.log.segment import Segment
from kprod.broker.log.segment_rules import NextBatch, SegmentRules, must_roll
from kprod.broker.log.store import Store

DEFAULT_RULES = SegmentRules()
_BASE_OFFSET = attrgetter("base_offset")


class PartitionLog:  # noqa: PLR0904 - what retention, compaction and loading may do to it, too
    """The batches of one partition.

    Attributes:
        cleaned_offset: All below it was compacted; −1 when none was.
        cut_count: How many times the log was cut.
        delete_files: Gives up the files of a segment that was dropped.
        epochs: Where each leader epoch begins.
        log_start_offset: First offset that can be read.
        log_end_offset: Offset of the next record.
        name: Its partition; the jitter of its segments comes from it.
        producers: What the log's batches say of idempotent producers; kept by the log's owner.
        recovery_point: All below it is synced; it moves by a sync, and down when the log is cut.
        is_sound: Whether no sync has failed. One that failed is not tried again: the operating
            system may have dropped the bytes and would report success.
        rules: When the active segment ends; others hold from the next append on.
        on_cleaned: Called when `cleaned_offset` has changed, for the checkpoint.
        on_cut: Called when the recovery point went down; the checkpoint must say so at once.
        size_bytes: Of all segments.
    """

    __slots__ = (
        "_has_new_names",
        "_saved_epoch",
        "_segments",
        "_store",
        "cleaned_offset",
        "cut_count",
        "delete_files",
        "epochs",
        "is_sound",
        "log_end_offset",
        "log_start_offset",
        "name",
        "on_cleaned",
        "on_cut",
        "producers",
        "recovery_point",
        "rules",
        "size_bytes",
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
        """Make a log.

        Args:
            store: For this log's segments alone.
            rules: When segments end, and how dense their indexes are.
            segments: What the store holds, oldest first, without overlap.
            start_offset: Where a log without segments begins.
            epochs: Those of the segments' batches; none of an empty log.
        """
        self._store = store
        self.delete_files: DeleteFiles = delete_at_once
        self.name: object = None
        self.rules: SegmentRules = rules
        self._segments = list(segments)
        self.epochs: LeaderEpochs = LeaderEpochs() if epochs is None else epochs
        self._saved_epoch = self.epochs.latest_epoch
        self.producers: ProducerStates = ProducerStates()
        self._has_new_names = False
        self.cleaned_offset: int = -1
        self.cut_count: int = 0
        self.is_sound: bool = True
        self.on_cleaned: Callable[[], None] = _nothing
        self.on_cut: Callable[[], None] = _nothing
        self.log_start_offset: int = segments[0].base_offset if segments else start_offset
        self.log_end_offset: int = segments[-1].next_offset if segments else start_offset
        self.recovery_point: int = self.log_end_offset
        self.size_bytes: int = sum(it.size_bytes for it in segments)

    def __str__(self) -> str:
        """Where the log is kept."""
        return str(self._store)

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first; the last one is the active one."""
        return self._segments

    def append(
        self, batch: RecordBatch, encoded: memoryview, *, leader_epoch: int, now_ms: int = 0
    ) -> int:
        """Give a batch its offsets and put it at the end.

        Args:
            batch: A validated batch; its own offset and epoch do not matter.
            encoded: The same bytes, writable; the log may keep them.
            leader_epoch: Of the leader that appends.
            now_ms: Wall clock, for segments whose batches have no timestamps.

        Returns:
            The batch's base offset.

        Raises:
            OSError: It cannot be written; the log ends where it did.
        """
        base_offset = self.log_end_offset
        last_offset = base_offset + batch.last_offset_delta
        timestamp_ms = batch.max_timestamp_ms
        following = NextBatch(len(encoded), last_offset, timestamp_ms, now_ms)
        if not self._segments or must_roll(self._segments[-1], self.rules, following, self.name):
            self.roll(now_ms)
        if leader_epoch != self._saved_epoch:
            self._assign_epoch(leader_epoch, base_offset)
        rewrite_offsets(encoded, base_offset, leader_epoch)
        active = self._segments[-1]
        active.append(encoded, last_offset, timestamp_ms)
        if timestamp_ms < 0:
            active.created_ms = now_ms
        self.log_end_offset = last_offset + 1
        self.size_bytes += len(encoded)
        return base_offset

    def roll(self, now_ms: int) -> None:
        """End the active segment and begin an empty one, unless it is empty already.

        Args:
            now_ms: Wall clock.

        Raises:
            OSError: The new segment cannot be made, or the old one cannot be synced.
        """
        base_offset = self.log_end_offset
        if self._segments:
            if not self._segments[-1].size_bytes:
                return  # the next one would have its name (KAFKA-6388)
            self._segments[-1].save_indexes(self._store)
            if self._store.is_durable:
                self._take_snapshot()
        file = self._store.create(segment_file_name(base_offset, LOG_SUFFIX))
        self._has_new_names = True
        interval_bytes = self.rules.index_interval_bytes
        segment = Segment(file, base_offset, index_interval_bytes=interval_bytes)
        segment.created_ms = now_ms
        self._segments.append(segment)
        if self._store.is_durable:
            self.flush()

    def begin_epoch(self, leader_epoch: int, *, save: bool = True) -> None:
        """Note that a leader begins with what it will append next, even if that never comes.

        Args:
            leader_epoch: Above the newest one.
            save: Whether a crash must not forget it; an append in it saves it anyway.
        """
        if save:
            self._assign_epoch(leader_epoch, self.log_end_offset)
        else:
            self.epochs.assign(leader_epoch, self.log_end_offset)

    def read(
        self, offset: int, *, limit_offset: int, max_bytes: int, whole_first: bool = True
    ) -> list[memoryview]:
        """Read bytes from the batch that holds an offset, the last batch perhaps cut off.

        Args:
            offset: First offset wanted, within the log.
            limit_offset: Nothing is given from the batch on that holds it.
            max_bytes: Most bytes, but for the first batch.
            whole_first: Whether the first batch comes whatever its size; otherwise nothing is
                given when it does not fit.

        Returns:
            The bytes in pieces, all of one segment, each beginning at a batch; views, not copies,
            when the log is in memory.
        """
        if offset >= limit_offset:
            return []
        for index in range(self._index_of(offset), len(self._segments)):
            segment = self._segments[index]
            place = segment.place_of(offset)
            if place is None:
                continue  # the offset lies behind the segment's last batch
            position, first_bytes = place
            readable_bytes = _limit_position(segment, limit_offset) - position
            if first_bytes > max_bytes:
                if not whole_first:
                    return []
                max_bytes = first_bytes
            return segment.read(position, min(max_bytes, readable_bytes))
        return []

    def note_ended(self, transaction: EndedTransaction) -> None:
        """Index a transaction in the segment that has its marker, if it was aborted."""
        self._segments[self._index_of(transaction.last_offset)].aborted.note_ended(transaction)

    def bytes_between(self, offset: int, limit_offset: int, *, enough: int) -> int:
        """Count the readable bytes from an offset to a limit.

        Args:
            offset: Within the log.
            limit_offset: Exclusive.
            enough: Most that the caller counts; the response where the two lie in different
                segments.

        Returns:
            At most `enough`.
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
        """Read all batches, oldest first; the log must not change meanwhile."""
        for segment in self._segments:
            for header in segment.headers():
                yield segment.batch(header)

    def batches_at(self, timestamp_ms: int) -> Iterator[RecordBatch]:
        """Read the batches whose largest timestamp is as late as a time, oldest first."""
        for segment in self._segments:
            if segment.largest.timestamp_ms < timestamp_ms:
                continue
            for header in segment.headers_at(timestamp_ms):
                if header.max_timestamp_ms >= timestamp_ms:
                    yield segment.batch(header)

    def latest_batch(self) -> RecordBatch | None:
        """Find the first batch with the largest timestamp."""
        filled = [it for it in self._segments if it.size_bytes]
        if not filled:
            return None
        segment = max(filled, key=lambda it: it.largest.timestamp_ms)
        latest_ms = segment.largest.timestamp_ms
        headers = segment.headers_at(latest_ms)
        return next(segment.batch(it) for it in headers if it.max_timestamp_ms >= latest_ms)

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds an offset at or beyond this one.

        Args:
            offset: At least `log_start_offset`.
        """
        if not self._segments:
            return
        self.cut_count += 1
        self.cleaned_offset = min(self.cleaned_offset, offset)
        if offset < self.recovery_point:
            # First: after a crash in the middle, the cut records must be checked again.
            self.recovery_point = offset
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
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self._has_new_names = True
        if self.epochs.truncate_to(self.log_end_offset):
            self._save_epochs()

    def drop_oldest(self) -> None:
        """Drop the oldest segment, which is not the active one; the log starts behind it."""
        # The start moves before the file goes: no reader may be sent to a missing file.
        self.raise_start(self._segments[1].base_offset)
        self._drop(0, (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX))

    def raise_start(self, offset: int) -> bool:
        """Let the log begin later; the files before it are left to retention.

        Args:
            offset: The new start, at most `log_end_offset`; a lower one than now changes nothing.

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
        """The log's files, for compaction."""
        return self._store

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Let one segment take the place of some that follow each other, none of them active."""
        first = self._segments.index(old[0])
        self.size_bytes += new.size_bytes - sum(it.size_bytes for it in old)
        self._segments[first : first + len(old)] = [new]

    @property
    def is_durable(self) -> bool:
        """Whether the log survives the process."""
        return self._store.is_durable

    def flush(self) -> None:
        """Make everything that was appended survive a crash of the operating system.

        The active segment's indexes are left out: recovery builds them again.

        Raises:
            OSError: It cannot be synced now, or could not be before.
        """
        if self.recovery_point >= self.log_end_offset and not self._has_new_names:
            return
        self._sync_from(self.recovery_point)
        self.recovery_point = self.log_end_offset

    def close(self) -> None:
        """Flush, with the active segment's indexes and the producers' state at the end.

        Raises:
            OSError: It cannot be synced now, or could not be before.
        """
        if not self._store.is_durable or not self._segments:
            return
        active = self._segments[-1]
        active.save_indexes(self._store)
        self._take_snapshot()
        self._save_epochs()
        self._has_new_names = True
        self._sync_from(min(self.recovery_point, active.base_offset))
        active.sync_indexes(self._store)
        self.recovery_point = self.log_end_offset

    def _sync_from(self, offset: int) -> None:
        if not self.is_sound:
            raise OSError(f"{self._store}: an earlier sync failed, and is not tried again")
        self.is_sound = False
        for segment in self._segments[self._index_of(offset) :]:
            segment.sync()
            if segment is not self._segments[-1]:
                segment.sync_indexes(self._store)
            snapshot = segment_file_name(segment.base_offset, SNAPSHOT_SUFFIX)
            if self._store.exists(snapshot):
                self._store.sync(snapshot)
        if self._has_new_names:
            self._store.sync()
            self._has_new_names = False
        self.is_sound = True

    def _take_snapshot(self) -> None:
        name = segment_file_name(self.log_end_offset, SNAPSHOT_SUFFIX)
        self._store.save(name, self.producers)
        self._store.sync(name)

    def save_indexes(self) -> None:
        """Write the active segment's indexes; those of the others were written when it was made."""
        if self._segments:
            self._segments[-1].save_indexes(self._store)

    def _assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        if self.epochs.assign(leader_epoch, start_offset) or self._saved_epoch != leader_epoch:
            self._save_epochs()

    def _save_epochs(self) -> None:
        """Write the table at once: a follower must not be told of an epoch that can vanish."""
        self._store.replace(EPOCH_FILE, self.epochs)
        self._saved_epoch = self.epochs.latest_epoch

    def _drop(self, index: int, suffixes: Sequence[str] = SEGMENT_SUFFIXES) -> None:
        segment = self._segments.pop(index)
        self.size_bytes -= segment.size_bytes
        names = [segment_file_name(segment.base_offset, suffix) for suffix in suffixes]
        self.delete_files(self._store, names, self.rules.file_delete_delay_ms)

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
