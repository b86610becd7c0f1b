"""One compaction round of one log, as a generator that pauses after each slice of a segment.

1. Build the map: the newest offset of each key of the dirty segments, until they end or the map is
full.
2. Group all segments up to the map's end; each group becomes one segment.
3. Write the retained records of each group to a new segment, which then replaces the group
(`swap`).
4. Set the log's cleaned offset to the map's end.

Invariants.
    Between two slices the log is complete: it has either the old segments or the new one. However a
    round ends, it leaves no `.cleaned` file; after a crash the loader removes them. A round that
    finds its log truncated or its segments deleted ends without a change (`RoundAborted`).

Thread-safety: the broker's thread.
Source: Kafka Cleaner.doClean and cleanSegments (4.3).
"""

import dataclasses
from collections.abc import Generator, Sequence
from typing import NamedTuple

from kprod._core.record.offset_map import OffsetMap
from kprod.broker.log.cleaning.empty_map import empty_map
from kprod.broker.log.cleaning.groups import grouped
from kprod.broker.log.cleaning.picker import Cleanable
from kprod.broker.log.cleaning.round_syncs import RoundSyncs
from kprod.broker.log.cleaning.segment_slices import Slice, slices
from kprod.broker.log.cleaning.survivors import Horizon, Survivors
from kprod.broker.log.cleaning.swap import cleaned_names, remove_cleaned, sealed, swap
from kprod.broker.log.cleaning.transactions import TransactionOutcomes
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment

_SYNC_BYTES = 4 << 20
"""A new segment is synced after this many bytes, so that the last sync does not take long."""


class RoundAborted(Exception):
    """The log was truncated or lost segments while a round was in progress."""


class RoundSettings(NamedTuple):
    """Settings of a round.

    Attributes:
        buffer_bytes: Memory of the offset map.
        horizon: Retention of tombstones.
    """

    buffer_bytes: int
    horizon: Horizon


@dataclasses.dataclass(slots=True, kw_only=True)
class RoundSummary:
    """Results of one round or of several.

    Attributes:
        end_offset: The log is clean up to this offset.
        read_records: Records of the old segments.
        kept_records: Records of the new segments.
        invalid_records: Records without a key, which were dropped.
        read_bytes: Bytes of the old segments.
        kept_bytes: Bytes of the new segments.
        segments_before: Number of old segments.
        segments_after: Number of new segments.
        map_utilization: Used share of the offset map, 0 to 1.
    """

    end_offset: int = 0
    read_records: int = 0
    kept_records: int = 0
    invalid_records: int = 0
    read_bytes: int = 0
    kept_bytes: int = 0
    segments_before: int = 0
    segments_after: int = 0
    map_utilization: float = 0.0

    def add(self, other: "RoundSummary") -> None:
        """Add the results of a later round of the same log."""
        self.end_offset = other.end_offset
        self.map_utilization = max(self.map_utilization, other.map_utilization)
        self.read_records += other.read_records
        self.kept_records += other.kept_records
        self.invalid_records += other.invalid_records
        self.read_bytes += other.read_bytes
        self.kept_bytes += other.kept_bytes
        self.segments_before += other.segments_before
        self.segments_after += other.segments_after


class CleaningRound:
    """One compaction round of one log.

    Attributes:
        summary: The results so far.
        syncs: The syncs in progress; while there is any, a slice does nothing.
    """

    __slots__ = ("_cleanable", "_cuts", "_log", "_map", "_settings", "summary", "syncs")

    def __init__(self, log: PartitionLog, part: Cleanable, settings: RoundSettings) -> None:
        """Prepare a round without reading anything.

        Args:
            log: The log to compact.
            part: The segments that may be compacted.
            settings: Map size and tombstone retention.
        """
        self._log = log
        self._cleanable = part
        self._settings = settings
        self._cuts = log.cut_count
        self._map = empty_map(settings.buffer_bytes)
        self.summary: RoundSummary = RoundSummary()
        self.syncs: RoundSyncs = RoundSyncs()

    @property
    def offsets(self) -> OffsetMap:
        """The offset map, which `run` fills."""
        return self._map

    def run(self) -> Generator[int]:
        """Run the round.

        Yields:
            The number of bytes read and written in each slice.

        Raises:
            RoundAborted: The log was truncated or lost segments.
            CorruptRecord: A batch is corrupt; the groups before it may be compacted already.
            OSError: A file cannot be read or written.
        """
        yield from self._build_map()
        end_offset = self._map.latest_offset + 1
        segments = [it for it in self._cleanable.segments if it.base_offset < end_offset]
        outcomes = TransactionOutcomes(
            it for segment in self._log.segments for it in segment.aborted
        )
        survivors = Survivors(self._map, outcomes, self._settings.horizon)
        for group in grouped(segments, self._log.rules):
            yield from self._rewrite(group, survivors)
        self._log.cleaned_offset = end_offset
        self._log.on_cleaned()
        self.summary.end_offset = end_offset
        self.summary.invalid_records = survivors.invalid_count
        self.summary.map_utilization = self._map.utilization

    def _build_map(self) -> Generator[int]:
        first_dirty = self._cleanable.first_dirty_offset
        dirty = [it for it in self._cleanable.segments if it.next_offset > first_dirty]
        every = (it for segment in self._log.segments for it in segment.aborted)
        outcomes = TransactionOutcomes(it for it in every if it.last_offset >= first_dirty)
        for segment in dirty:
            located = segment.locate(first_dirty)
            for piece in slices(segment, 0 if located is None else located.position):
                self._check(segment)
                is_full = self._learn(piece, outcomes, first_dirty)
                yield piece.size_bytes
                if is_full:
                    return
        # Offsets without records up to there must not be read again (KAFKA-8764).
        self._map.pass_over(self._cleanable.end_offset - 1)

    def _learn(self, piece: Slice, outcomes: TransactionOutcomes, first_dirty: int) -> bool:
        """Add a slice's records to the map; returns True when the map is full."""
        for batch in piece.batches:
            if batch.is_control:
                outcomes.end(batch)
            elif not outcomes.is_aborted(batch) and not self._map.learn(batch, first_dirty):
                return True
            self._map.pass_over(batch.last_offset)
        return False

    def _rewrite(self, group: Sequence[Segment], survivors: Survivors) -> Generator[int]:
        store = self._log.store
        base_offset = group[0].base_offset
        cleaned = Segment(
            store.create(cleaned_names(base_offset)[0]),
            base_offset,
            index_interval_bytes=self._log.rules.index_interval_bytes,
        )
        is_swapped = False
        try:
            yield from self._write(group, cleaned, survivors)
            cleaned.created_ms = group[-1].created_ms
            yield from self._synced(sealed(store, cleaned))
            self._check(group[0])
            is_swapped = True
            swap(self._log, group, cleaned)
        finally:
            if not is_swapped:
                remove_cleaned(store, base_offset)
        self.summary.segments_before += len(group)
        self.summary.segments_after += 1
        yield from self._synced([None])

    def _synced(self, names: Sequence[str | None]) -> Generator[int]:
        """Wait until files, and all that were handed over before, are synced."""
        self.syncs.submit(self._log.store, names)
        while self.syncs.is_pending:
            yield 0
        self.syncs.check()

    def _write(
        self, group: Sequence[Segment], cleaned: Segment, survivors: Survivors
    ) -> Generator[int]:
        survivors.last_records = self._log.producers.last_records()
        filled = [it for it in group if it.size_bytes]
        unsynced_bytes = 0
        for segment in filled:
            for piece in slices(segment):
                self._check(group[0])
                is_last = piece.is_last and segment is filled[-1]
                written_bytes = self._copy(piece, cleaned, survivors, is_last=is_last)
                unsynced_bytes += written_bytes
                if unsynced_bytes >= _SYNC_BYTES:
                    self.syncs.submit(self._log.store, cleaned_names(cleaned.base_offset)[:1])
                    unsynced_bytes = 0
                yield piece.size_bytes + written_bytes

    def _copy(self, piece: Slice, cleaned: Segment, survivors: Survivors, *, is_last: bool) -> int:
        summary = self.summary
        before_bytes = cleaned.size_bytes
        for batch in piece.batches:
            kept = survivors.of(batch, is_last=is_last and batch is piece.batches[-1])
            summary.read_records += batch.record_count
            if kept is None:
                continue
            cleaned.append(kept.encoded, batch.last_offset, kept.max_timestamp_ms)
            if kept.aborted is not None:
                cleaned.aborted.append(kept.aborted)
            summary.kept_records += kept.record_count
        written_bytes = cleaned.size_bytes - before_bytes
        summary.read_bytes += piece.size_bytes
        summary.kept_bytes += written_bytes
        return written_bytes

    def _check(self, first: Segment) -> None:
        """Check that the log still has a segment and all later ones, unchanged."""
        # Segments disappear from the log's beginning, one after another, or by truncation.
        if self._log.cut_count != self._cuts or first not in self._log.segments:
            raise RoundAborted
