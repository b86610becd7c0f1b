"""Extracts log entries from bytes that arrive in pieces, such as windows of a segment file.

No input is done here: the caller feeds the bytes. Only an incomplete entry is kept between calls.
Its pieces are joined to read its length, and then only when all of it is there, so that the time
for a large entry is proportional to its size, however many pieces it comes in.

Thread-safety: none.
Source: Kafka FileLogInputStream (clients 4.3.1) for the idea.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kprod._core.layout import BatchLayout, MessageLayout
from kprod.errors import CorruptRecord
from kprod.record.entries import LogEntry, runs

_LENGTH = struct.Struct(">i")


class LocatedEntry(NamedTuple):
    """An entry, and where it is in the whole log."""

    position: int
    entry: LogEntry


class LogScanner:
    """Finds the entries of a log in pieces of any size; checksums are left to the caller."""

    __slots__ = ("_held_bytes", "_needed_bytes", "_pieces", "_position")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._needed_bytes: int = BatchLayout.LOG_OVERHEAD_BYTES
        self._position = 0

    @property
    def position(self) -> int:
        """Position of the next entry, in bytes from the start of the log."""
        return self._position

    @property
    def trailing_bytes(self) -> int:
        """Number of bytes after the last complete entry."""
        return self._held_bytes

    def feed(self, piece: bytes) -> Iterator[LocatedEntry]:
        """Process more bytes of the log.

        Args:
            piece: The bytes after the previous piece; any length.

        Yields:
            The entries that are whole now. All must be taken before the next piece is fed.

        Raises:
            CorruptRecord: The log cannot be followed from `position` on.
        """
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes < self._needed_bytes:
            return
        buffer = b"".join(self._pieces)
        start = self._position
        try:
            for run in runs(buffer):
                for entry in run.entries(check_crc=False):
                    position = start + run.start + entry.position
                    self._position = position + entry.size_bytes
                    yield LocatedEntry(position, entry)
        except CorruptRecord as error:
            raise CorruptRecord(
                f"at position {self._position} of the log (bytes below count from {start}): "
                + str(error)
            ) from error
        self._hold(buffer[self._position - start :])

    def _hold(self, rest: bytes) -> None:
        """Keep an incomplete entry, and calculate how many bytes would complete it."""
        self._pieces = [rest]
        self._held_bytes = len(rest)
        self._needed_bytes = BatchLayout.LOG_OVERHEAD_BYTES
        if len(rest) >= BatchLayout.LOG_OVERHEAD_BYTES:
            (length,) = _LENGTH.unpack_from(rest, BatchLayout.BATCH_LENGTH_OFFSET)
            self._needed_bytes += max(int(length), MessageLayout.MESSAGE_V0_OVERHEAD_BYTES)
