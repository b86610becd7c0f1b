# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Fetched blocks of paused partitions, which wait without being decoded.

Thread-safety: one thread at a time, which the engine ensures.
"""

from collections import deque
from collections.abc import Iterator

from kprod.consumer.fetch_buffer import FetchedStep
from kprod.consumer.open_block import OpenBlock
from kprod.consumer.position import AssignedPartition

Entry = OpenBlock | FetchedStep


def partition_of(entry: Entry) -> AssignedPartition:
    """Return the partition of a block or step.

    Args:
        entry: A block or step.

    Returns:
        Its partition.
    """
    if isinstance(entry, OpenBlock):
        block = entry
        return block.partition
    return entry.partition


def is_of_newest_start(entry: Entry) -> bool:
    """Whether a block or step belongs to the newest start of its partition.

    Args:
        entry: A block or step.

    Returns:
        False after a seek, a reset or a truncation.
    """
    if isinstance(entry, OpenBlock):
        block = entry
        return block.fetched.number == block.partition.start.number
    return entry.number == entry.partition.start.number


class ParkedBlocks:
    """The blocks and steps of paused partitions, in order for each partition."""

    def __init__(self) -> None:
        """Start with none."""
        self._entries: dict[AssignedPartition, deque[Entry]] = {}

    def is_empty(self) -> bool:
        """Return whether there are none."""
        return not self._entries

    @property
    def size_bytes(self) -> int:
        """Memory of the blocks."""
        return sum(
            len(entry.fetched.records)
            for entries in self._entries.values()
            for entry in entries
            if isinstance(entry, OpenBlock)
        )

    def queues(self) -> Iterator[deque[Entry]]:
        """Return the queue of each partition; entries may be removed from it."""
        return iter(self._entries.values())

    def add(self, entry: Entry) -> None:
        """Add a block or step after its partition's others; no effect if it is there already.

        Args:
            entry: A block or step of a paused partition.
        """
        queue = self._entries.setdefault(entry.partition, deque())
        if entry not in queue:
            queue.append(entry)
        if isinstance(entry, OpenBlock):
            entry.park()

    def take(self, partition: AssignedPartition) -> deque[Entry]:
        """Remove and return a partition's entries.

        Args:
            partition: Any partition.

        Returns:
            The entries, in order; empty if there are none.
        """
        return self._entries.pop(partition, deque())

    def first(self) -> AssignedPartition:
        """Return the partition that was paused first; there must be one.

        Returns:
            The partition.
        """
        return next(iter(self._entries))
