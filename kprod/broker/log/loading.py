"""Makes a log from the files that an earlier one left: every batch is checked, a torn end is cut.

Rules.
    Segments are read from the oldest on. At the first batch that is unsound (cut off, a wrong
    checksum or magic, an offset that does not rise) its segment is cut there, and the files of all
    later segments get the suffix `.deleted`: nothing behind a gap may be read.
    Indexes are built from the batches; those on disk are not trusted. One without a segment is
    removed. Files of other names are left alone.
    What was recovered is synced before anybody reads it: a record that lives only in the operating
    system's memory must not be served now and be missing after the next crash (KAFKA-10101).

Thread-safety: the broker's thread.
Source: Kafka LogLoader and LogSegment.recover (4.3).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kprod.broker.log.epochs import EPOCH_FILE, LeaderEpochs
from kprod.broker.log.file_names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    base_offset_of,
    segment_file_name,
)
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment
from kprod.broker.log.store import Store


class Loaded(NamedTuple):
    """A log and what was lost when it was loaded.

    Attributes:
        log: Ready for appends and reads.
        cut_bytes: Dropped from the end of the last sound segment.
        cut_offset: Offset from which on batches were dropped; −1 when all were sound.
        deleted: Names that the files of later segments have now.
    """

    log: PartitionLog
    cut_bytes: int
    cut_offset: int
    deleted: tuple[str, ...]


def load_log(store: Store, *, index_interval_bytes: int) -> Loaded:
    """Load and recover a log.

    Args:
        store: Holds the files of one partition, perhaps none.
        index_interval_bytes: As for `PartitionLog`.

    Returns:
        The log, and what was dropped.

    Raises:
        OSError: A file cannot be read, cut or synced.
    """
    names = store.names()
    bases = [base for name in names if (base := base_offset_of(name)) is not None]
    _remove_orphans(store, names, bases)
    segments: list[Segment] = []
    epochs = LeaderEpochs()
    cut_bytes, cut_offset = 0, -1
    for base_offset in bases:
        if segments and segments[-1].next_offset > base_offset:
            cut_offset = segments[-1].next_offset  # it overlaps the segment before
            break
        file = store.open(segment_file_name(base_offset, LOG_SUFFIX))
        segment = Segment(file, base_offset, index_interval_bytes=index_interval_bytes)
        cut_bytes = segment.recover(epochs)
        file.sync()
        segments.append(segment)
        if cut_bytes:
            cut_offset = segment.next_offset
            break
    deleted = tuple(_delete(store, names, bases[len(segments) :]))
    for segment in segments[:-1]:
        segment.save_indexes(store)
    if segments:
        store.save(EPOCH_FILE, epochs)
    store.sync()
    log = PartitionLog(
        store, index_interval_bytes=index_interval_bytes, segments=segments, epochs=epochs
    )
    log.producers.rebuild(log.batches())
    return Loaded(log, cut_bytes, cut_offset, deleted)


def _remove_orphans(store: Store, names: Sequence[str], bases: Sequence[int]) -> None:
    indexes = {
        segment_file_name(base, suffix)
        for base in bases
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    }
    for name in names:
        of_log = name.removesuffix(OFFSET_INDEX_SUFFIX).removesuffix(TIME_INDEX_SUFFIX)
        is_index = of_log != name and base_offset_of(of_log + LOG_SUFFIX) is not None
        if is_index and name not in indexes:
            store.remove(name)


def _delete(store: Store, names: Sequence[str], bases: Sequence[int]) -> Iterator[str]:
    for base in bases:
        for suffix in SEGMENT_SUFFIXES:
            name = segment_file_name(base, suffix)
            if name in names:
                store.rename(name, name + DELETED_SUFFIX)
                yield name + DELETED_SUFFIX
