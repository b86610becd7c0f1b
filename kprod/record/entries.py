"""Log entries of any format: what a segment or a fetch response that saw several releases holds.

All three formats begin alike: an offset, the length of what follows, and at byte 16 the magic. So
the input can be cut into runs of entries of one family, and each run has its reader.

Thread-safety: one iterator, one thread.
Source: Kafka ByteBufferLogInputStream and FileLogInputStream (clients 4.3.1).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from kprod._core.layout import BatchLayout, Magic, MessageLayout
from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.message_set_reader import MessageEntry
from kprod.compression import Buffer
from kprod.record.message_set import read_message_set
from kprod.record.reader import read_batches

LogEntry: TypeAlias = RecordBatch | MessageEntry

_LENGTH = struct.Struct(">i")


class Run(NamedTuple):
    """Neighbouring entries that one reader can read.

    Attributes:
        start: Position of the first entry, in bytes from the start of the input.
        is_v2: Record batches, otherwise messages of V0 and V1.
        view: Their bytes; of the last run also those of an entry cut off.
    """

    start: int
    is_v2: bool
    view: memoryview

    def entries(self, *, check_crc: bool = True) -> Iterator[LogEntry]:
        """Iterate the whole entries.

        Args:
            check_crc: Whether to verify checksums.

        Yields:
            The entries; positions in them count from the start of the run.

        Raises:
            CorruptRecord: The bytes are not valid entries; those before them were given.
        """
        read = read_batches if self.is_v2 else read_message_set
        yield from read(self.view, check_crc=check_crc)


def runs(buffer: Buffer) -> Iterator[Run]:
    """Cut the input where the family of formats changes.

    Args:
        buffer: Entries after one another, the last perhaps cut off.

    Yields:
        Runs that together are the whole input. If an entry cannot be identified, because it is cut
        off or its length or magic is impossible, the rest belongs to the current run, whose reader
        reports the fault.
    """
    view = memoryview(buffer).cast("B")
    start = position = 0
    is_v2 = _is_v2(view, 0) is True
    while (position := _next_position(view, position)) < len(view):
        following = _is_v2(view, position)
        if following is None:
            break
        if following != is_v2:
            yield Run(start, is_v2, view[start:position])
            start, is_v2 = position, following
    if start < len(view):
        yield Run(start, is_v2, view[start:])


def read_entries(buffer: Buffer, *, check_crc: bool = True) -> Iterator[LogEntry]:
    """Iterate the whole entries of any format.

    Args:
        buffer: Entries after one another, the last perhaps cut off, which is then left out.
        check_crc: Whether to verify checksums.

    Yields:
        A `RecordBatch` or a `MessageEntry` each.

    Raises:
        CorruptRecord: The bytes are not valid entries; those before them were given.
    """
    for run in runs(buffer):
        yield from run.entries(check_crc=check_crc)


def has_valid_crc(entry: LogEntry) -> bool:
    """Whether the checksum of an entry is right."""
    return entry.is_intact if isinstance(entry, MessageEntry) else entry.has_valid_crc()


def _is_v2(view: memoryview, position: int) -> bool | None:
    """Whether the entry's magic says V2; None when there are too few bytes or no such format."""
    magic_position = position + BatchLayout.MAGIC_OFFSET
    if magic_position >= len(view) or view[magic_position] > Magic.MAGIC_V2:
        return None
    return bool(view[magic_position] == Magic.MAGIC_V2)


def _next_position(view: memoryview, position: int) -> int:
    """Return the position of the next entry; the end of the input if it cannot be determined."""
    length_position = position + BatchLayout.BATCH_LENGTH_OFFSET
    if length_position + _LENGTH.size > len(view):
        return len(view)
    (length,) = _LENGTH.unpack_from(view, length_position)
    if length < MessageLayout.MESSAGE_V0_OVERHEAD_BYTES:
        return len(view)
    return min(position + BatchLayout.LOG_OVERHEAD_BYTES + int(length), len(view))
