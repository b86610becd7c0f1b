"""Loads a log from its files, and recovers it after an unclean shutdown.

Rules.
    After a clean shutdown nothing is checked: the log's end is found by reading from the last index
    entry on. Otherwise every segment from the one with the recovery point on is checked batch by
    batch; everything before was synced and is trusted.
    At the first corrupt batch (cut off, wrong checksum or magic, an offset that does not rise) the
    segment is truncated, and all files of later segments get the suffix `.deleted`: records after a
    gap must not be read. The same holds if a segment ends before the next one's base offset: it
    lost whole batches before the background sync.
    A segment with a missing index is checked, too. An index without a segment is removed. Files
    with other names are ignored.
    Recovered bytes are synced before any client reads them: a record that exists only in the page
    cache could be served now and be gone after the next crash (KAFKA-10101).
    A log whose end is before its checkpointed start has lost everything: it continues empty at that
    start.

Thread-safety: the broker's thread.
Source: Kafka LogLoader, LogSegment.recover and ProducerStateManager (4.3).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.checkpoint import TEMPORARY_SUFFIX
from kprod.broker.log.epochs import EPOCH_FILE, LeaderEpochs
from kprod.broker.log.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    base_offset_of,
    segment_file_name,
)
from kprod.broker.log.identity import PARTITION_FILE
from kprod.broker.log.open_transactions import EndedTransaction
from kprod.broker.log.partition_log import DEFAULT_RULES, PartitionLog
from kprod.broker.log.producer_snapshot import decode_snapshot
from kprod.broker.log.producer_state import ProducerStates
from kprod.broker.log.segment import Segment
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.store import Store
from kprod.errors import CorruptRecord
from kprod.guarded_log import guarded_logger

_TEMPORARY = frozenset({EPOCH_FILE + TEMPORARY_SUFFIX, PARTITION_FILE + TEMPORARY_SUFFIX})
_logger = guarded_logger("kprod.broker")


class LoadOptions(NamedTuple):
    """Facts about a log that are known before its files are read.

    Attributes:
        rules: The segment rules, as for `PartitionLog`.
        was_clean: Whether the last shutdown was clean.
        recovery_point: All records below this offset were synced.
        start_offset: First offset that may be read.
        cleaned_offset: All records below this offset were compacted; Kafka's compaction leaves gaps
            at the ends of segments.
    """

    rules: SegmentRules = DEFAULT_RULES
    was_clean: bool = False
    recovery_point: int = 0
    start_offset: int = 0
    cleaned_offset: int = -1


class Loaded(NamedTuple):
    """A loaded log, and its losses.

    Attributes:
        log: The log, ready for appends and reads.
        recovered_count: Number of segments that were checked.
        cut_bytes: Bytes dropped from the end of the last valid segment.
        cut_offset: Offset from which on batches were dropped; −1 if none were.
        deleted: The new names of the files of later segments.
    """

    log: PartitionLog
    recovered_count: int
    cut_bytes: int
    cut_offset: int
    deleted: tuple[str, ...]


def load_log(store: Store, options: LoadOptions) -> Loaded:
    """Load a log, and recover the part that may be corrupt.

    Args:
        store: The files of one partition; may be empty.
        options: Facts from the checkpoints.

    Returns:
        The log and its losses.

    Raises:
        OSError: A file cannot be read, truncated or synced.
    """
    loading = _Loading(store, options)
    loaded = loading.run()
    if loaded.log.log_end_offset >= options.start_offset:
        loaded.log.raise_start(options.start_offset)
        return loaded
    _logger.warning(
        "%s ends at offset %d and is said to begin at %d: it begins there, empty",
        store,
        loaded.log.log_end_offset,
        options.start_offset,
    )
    deleted = tuple(_delete(store, store.names(), loading.bases))
    for name in (*_snapshots(store.names()), EPOCH_FILE):
        store.remove(name)
    store.sync()
    log = PartitionLog(
        store,
        rules=options.rules,
        start_offset=options.start_offset,
    )
    return loaded._replace(log=log, deleted=(*loaded.deleted, *deleted))


class _Loading:
    """A log while it is being loaded."""

    def __init__(self, store: Store, options: LoadOptions) -> None:
        self._store = store
        self._options = options
        self._segments: list[Segment] = []
        self._producers = ProducerStates()
        self._snapshot_offset = 0
        self._names = frozenset(_finish_swaps(store))
        self.bases = sorted(
            base for name in self._names if (base := base_offset_of(name)) is not None
        )
        self._epochs = _read_epochs(store)

    def run(self) -> Loaded:
        store = self._store
        trusted_count = self._trusted_count()
        _remove_orphans(store, self._names, self.bases)
        for index, base_offset in enumerate(self.bases[:trusted_count]):
            segment = self._opened(base_offset)
            if not segment.trust(store, _at(self.bases, index + 1)):
                trusted_count = index
                break
            self._segments.append(segment)
        cut_bytes, cut_offset = self._recover(trusted_count)
        deleted = tuple(_delete(store, self._names, self.bases[len(self._segments) :]))
        log = PartitionLog(
            store,
            rules=self._options.rules,
            segments=self._segments,
            epochs=self._epochs,
        )
        log.producers = self._producers
        recovered_count = len(self._segments) - trusted_count
        if recovered_count or deleted or not self._options.was_clean:
            self._settle(log, trusted_count)
        return Loaded(log, recovered_count, cut_bytes, cut_offset, deleted)

    def _trusted_count(self) -> int:
        """Return how many segments, from the first on, need no check."""
        bases = self.bases
        if self._options.was_clean:
            count = len(bases)
        else:
            # The segment with the recovery point may have been appended to after the sync.
            count = sum(base <= self._options.recovery_point for base in bases) - 1
        for index in range(count):
            if segment_file_name(bases[index], OFFSET_INDEX_SUFFIX) not in self._names:
                return index
        return max(count, 0)

    def _opened(self, base_offset: int) -> Segment:
        name = segment_file_name(base_offset, LOG_SUFFIX)
        interval_bytes = self._options.rules.index_interval_bytes
        segment = Segment(self._store.open(name), base_offset, index_interval_bytes=interval_bytes)
        segment.created_ms = self._store.modified_ms(name)
        return segment

    def _recover(self, trusted_count: int) -> tuple[int, int]:
        """Check the remaining segments; returns the bytes that were cut off, and their offset."""
        first_checked = _at(self.bases, trusted_count)
        if not self._epochs:  # the file is lost or never existed
            self._epochs = _epochs_of(self._segments)
        ends = self._segments[-1].next_offset if self._segments else 0
        self._restore_producers(ends if first_checked is None else first_checked)
        for segment in self._segments:
            for batch in segment.batches_from(self._snapshot_offset):
                ended = self._learn(batch)
                if ended is not None:
                    segment.aborted.note_ended(ended)
        for index, base_offset in enumerate(self.bases[trusted_count:], trusted_count + 1):
            if self._segments and self._segments[-1].next_offset > base_offset:
                return 0, self._segments[-1].next_offset  # it overlaps the previous segment
            segment = self._opened(base_offset)
            cut_bytes = segment.recover(self._epochs, self._learn)
            segment.sync()
            self._segments.append(segment)
            next_base = _at(self.bases, index)
            if cut_bytes or (next_base is not None and self._is_gap(segment, next_base)):
                return cut_bytes, segment.next_offset
        return 0, -1

    def _is_gap(self, segment: Segment, next_base: int) -> bool:
        """Return whether a segment lost whole batches at its end before it was synced."""
        return segment.next_offset < next_base and next_base > self._options.cleaned_offset

    def _restore_producers(self, limit_offset: int) -> None:
        """Restore from the newest valid snapshot that is older than everything that is checked."""
        for name in sorted(_snapshots(self._names), reverse=True):
            offset = base_offset_of(name, SNAPSHOT_SUFFIX) or 0
            if offset > limit_offset:
                continue
            try:
                self._producers.restore(decode_snapshot(self._store.load(name)))
            except CorruptRecord as error:
                _logger.warning("%s/%s is removed: %s", self._store, name, error)
                self._store.remove(name)
                continue
            self._snapshot_offset = offset
            return

    def _learn(self, batch: RecordBatch) -> EndedTransaction | None:
        if batch.base_offset < self._snapshot_offset:
            return None
        return self._producers.remember(batch, batch.base_offset)

    def _settle(self, log: PartitionLog, trusted_count: int) -> None:
        """Write and sync rebuilt files, and remove files beyond the log's end."""
        store = self._store
        for segment in self._segments[trusted_count:-1]:
            segment.save_indexes(store)
            segment.sync_indexes(store)
        bases = set(self.bases[: len(self._segments)])
        snapshots = {
            name: base
            for name in store.names()
            if (base := base_offset_of(name, SNAPSHOT_SUFFIX)) is not None
        }
        newest = max((it for it in snapshots.values() if it <= log.log_end_offset), default=None)
        for name, offset in snapshots.items():
            if offset > log.log_end_offset or (offset not in bases and offset != newest):
                store.remove(name)
        # The newest epoch may have no record, or have lost its records; clients know it already.
        newest_epoch = self._epochs.latest_epoch
        self._epochs.truncate_to(log.log_end_offset + 1)
        if newest_epoch > self._epochs.latest_epoch:
            self._epochs.assign(newest_epoch, log.log_end_offset)
        if self._segments:
            self._epochs.raise_start(log.log_start_offset)
            store.replace(EPOCH_FILE, self._epochs)
        store.sync()


def _read_epochs(store: Store) -> LeaderEpochs:
    if not store.exists(EPOCH_FILE):
        return LeaderEpochs()
    try:
        return LeaderEpochs.decoded(store.load(EPOCH_FILE))
    except CorruptRecord as error:
        _logger.warning("%s: %s; epochs are read from the batches", store, error)
        return LeaderEpochs()


def _finish_swaps(store: Store) -> list[str]:
    """Remove deleted files, and complete or undo an interrupted replacement of segments.

    Returns:
        The names of all files that are left.
    """
    names = store.names()
    doomed = [it for it in names if it.endswith(DELETED_SUFFIX) and _base_of(it) is not None]
    doomed += [it for it in names if it in _TEMPORARY]
    cleaned = {it: base for it in names if (base := _base_of(it, CLEANED_SUFFIX)) is not None}
    swaps = {it: base for it in names if (base := _base_of(it, SWAP_SUFFIX)) is not None}
    undone = [it for it, base in swaps.items() if cleaned and base >= min(cleaned.values())]
    for name in [*doomed, *cleaned, *undone]:
        store.remove(name)
    _complete(store, {it: base for it, base in swaps.items() if it not in undone})
    return store.names() if doomed or cleaned or swaps else names


def _complete(store: Store, swaps: Mapping[str, int]) -> None:
    """Let complete new segments replace the segments that they cover."""
    logs = [it for it in swaps if it.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        last = max(logs, key=swaps.__getitem__)
        segment = Segment(store.open(last), swaps[last], index_interval_bytes=0)
        segment.recover(LeaderEpochs())
        covered = range(min(swaps[it] for it in logs), segment.next_offset)
        for name in store.names():
            if any(base_offset_of(name, suffix) in covered for suffix in SEGMENT_SUFFIXES):
                store.remove(name)
    for name in swaps:
        store.rename(name, name.removesuffix(SWAP_SUFFIX))
    if swaps:
        store.sync()


def _base_of(name: str, last_suffix: str = DELETED_SUFFIX) -> int | None:
    """Parse the base offset in the name of a segment file that has an additional suffix."""
    plain = name.removesuffix(last_suffix)
    if plain == name:
        return None
    suffix = "." + plain.rpartition(".")[2]
    is_ours = suffix in SEGMENT_SUFFIXES or suffix == SNAPSHOT_SUFFIX
    return base_offset_of(plain, suffix) if is_ours else None


def _epochs_of(segments: Sequence[Segment]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for segment in segments:
        for header in segment.headers():
            if header.leader_epoch > epochs.latest_epoch:
                epochs.assign(header.leader_epoch, header.base_offset)
    return epochs


def _snapshots(names: Iterable[str]) -> list[str]:
    return [it for it in names if base_offset_of(it, SNAPSHOT_SUFFIX) is not None]


def _at(values: Sequence[int], index: int) -> int | None:
    return values[index] if index < len(values) else None


def _remove_orphans(store: Store, names: frozenset[str], bases: Sequence[int]) -> None:
    known = set(bases)
    for name in sorted(names):
        found = [base_offset_of(name, suffix) for suffix in INDEX_SUFFIXES]
        if any(base is not None and base not in known for base in found):
            store.remove(name)


def _delete(store: Store, names: Collection[str], bases: Sequence[int]) -> Iterator[str]:
    for base in bases:
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
            name = segment_file_name(base, suffix)
            if name in names:
                store.rename(name, name + DELETED_SUFFIX)
                yield name + DELETED_SUFFIX
