"""The position of a topic reader in one partition, from "unknown" to "read to the end".

    start unknown → end unknown → reading → finished

A log may lose its beginning while it is read; then both offsets are requested again, and reading
continues at the new start. Records are never returned twice.

Thread-safety: one thread.
Source: Kafka's protocol guide for ListOffsets' special timestamps.
"""

import itertools
from collections.abc import Iterator

from kprod._core.record.message_set_reader import MessageEntry
from kprod.cluster.backoff import ExponentialBackoff
from kprod.model import Record
from kprod.record.entries import LogEntry

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1

BACKOFF = ExponentialBackoff(initial_ms=20, max_ms=1_000)


class ReadingPosition:
    """The position of one partition."""

    __slots__ = (
        "end_offset",
        "failures",
        "next_offset",
        "partition",
        "retry_at_ms",
        "start_offset",
    )

    def __init__(self, partition: int) -> None:
        """Start with unknown offsets.

        Args:
            partition: Partition number, from 0.
        """
        self.partition: int = partition
        self.start_offset: int | None = None  # the log's start offset
        self.end_offset: int | None = None  # the log's end offset, when it was first requested
        self.next_offset: int = 0  # after the last record read
        self.failures: int = 0  # consecutive failures
        self.retry_at_ms: int = 0

    @property
    def wanted_timestamp(self) -> int | None:
        """The timestamp field of the next ListOffsets request; None if both offsets are known."""
        if self.start_offset is None:
            return EARLIEST_TIMESTAMP
        return LATEST_TIMESTAMP if self.end_offset is None else None

    @property
    def is_finished(self) -> bool:
        """Whether everything up to the end was read."""
        return self.end_offset is not None and self.next_offset >= self.end_offset

    def take_offset(self, offset: int) -> None:
        """Set the offset that was requested with `wanted_timestamp`.

        Args:
            offset: At least 0.
        """
        if self.start_offset is None:
            self.start_offset = offset
            self.next_offset = max(self.next_offset, offset)
        else:
            self.end_offset = offset
        self.failures = 0

    def advance(self, next_offset: int) -> None:
        """Record that all records below an offset were read or do not exist.

        Args:
            next_offset: A value below the present one is ignored.
        """
        self.next_offset = max(self.next_offset, next_offset)
        self.failures = 0

    def unread(self, entry: LogEntry) -> Iterator[Record]:
        """Yield an entry's records that were not returned yet, and advance with each.

        Args:
            entry: A whole entry of this partition.

        Yields:
            Records below the end; none for a transaction marker.
        """
        for record in _records_of(entry):
            if record.offset >= (self.end_offset or 0):
                break
            if record.offset >= self.next_offset:
                self.advance(record.offset + 1)
                yield record
        self.advance(last_offset_of(entry) + 1)

    def begin_again(self) -> None:
        """Request both offsets again: the log no longer has the requested one."""
        self.start_offset = self.end_offset = None


def last_offset_of(entry: LogEntry) -> int:
    """Return the last offset of an entry.

    Args:
        entry: A batch, or a message of an old format with the messages that it wraps.

    Returns:
        The offset of its last record.
    """
    return entry.offset if isinstance(entry, MessageEntry) else entry.last_offset


def _records_of(entry: LogEntry) -> Iterator[Record]:
    """Yield an entry's records in any format; none for a transaction marker."""
    if isinstance(entry, MessageEntry):
        return itertools.starmap(Record, entry)
    return iter(()) if entry.is_control else iter(entry)
