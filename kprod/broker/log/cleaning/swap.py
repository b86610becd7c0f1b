"""Replaces segments by the compacted segment that was made of them.

Steps, and what the loader does after a crash in each of them (`log.loading`).
    1. The new segment's files, named `.cleaned`, are synced. The loader removes them.
    2. They are renamed to `.swap`, the batches first, and the directory is synced. While a
       `.cleaned` file is left, the loader removes both kinds; afterwards it does steps 4 and 5.
    3. In memory, the log gets the new segment in place of the old ones.
    4. The old segments' files, and the snapshots of removed base offsets, are renamed to
       `.deleted`, the oldest first, and the directory is synced. The loader removes the others.
    5. The `.swap` files get their plain names, and the directory is synced. Nothing is left to do.
The caller syncs in steps 1 and 5, and may do so in the background.
Kafka syncs the directory once, after step 5, and relies on the file system's order of renames.

Thread-safety: the broker's thread, steps 2 to 5 in one call, so that nothing is read between them.
Source: Kafka LocalLog.replaceSegments (4.3).
"""

from collections.abc import Sequence

from kprod.broker.log.file_names import (
    CLEANED_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    segment_file_name,
)
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment
from kprod.broker.log.store import Store


def cleaned_names(base_offset: int) -> list[str]:
    """Return the names of the files of a segment that is being written."""
    return [segment_file_name(base_offset, it) + CLEANED_SUFFIX for it in SEGMENT_SUFFIXES]


def remove_cleaned(store: Store, base_offset: int) -> None:
    """Remove the files of a new segment that is not used."""
    for name in cleaned_names(base_offset):
        store.remove(name)


def sealed(store: Store, cleaned: Segment) -> list[str]:
    """Write the indexes of a new segment.

    Args:
        store: The store with the segment's files.
        cleaned: The new segment, written as `.cleaned`.

    Returns:
        Names of all its files, which must be synced before the swap.

    Raises:
        OSError: They cannot be written.
    """
    cleaned.save_indexes(store, CLEANED_SUFFIX)
    return [it for it in cleaned_names(cleaned.base_offset) if store.exists(it)]


def swap(log: PartitionLog, group: Sequence[Segment], cleaned: Segment) -> None:
    """Replace some segments by one; the directory is left to be synced once more.

    Args:
        log: The log that has the segments; none of them is active.
        group: The segments, oldest first.
        cleaned: A sealed and synced segment with the base offset of the first old one.

    Raises:
        OSError: The files are in a state that only the loader can repair; the log must not be read
            any more.
    """
    store = log.store
    names = [it for it in cleaned_names(cleaned.base_offset) if store.exists(it)]
    plain_names = [it.removesuffix(CLEANED_SUFFIX) for it in names]
    for name, plain_name in zip(names, plain_names, strict=True):
        store.rename(name, plain_name + SWAP_SUFFIX)
    store.sync()
    log.replace(group, cleaned)
    log.delete_files(store, _old_names(group), log.rules.file_delete_delay_ms)
    store.sync()
    for name in plain_names:
        store.rename(name + SWAP_SUFFIX, name)
    cleaned.reopen(store)


def _old_names(group: Sequence[Segment]) -> list[str]:
    names: list[str] = []
    for segment in group:
        suffixes = SEGMENT_SUFFIXES if segment is group[0] else (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)
        names += [segment_file_name(segment.base_offset, it) for it in suffixes]
    return names
