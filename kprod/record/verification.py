"""Checks of a log, entry by entry: checksums, structure, and offsets that only go up.

Thread-safety: none.
Source: Kafka DumpLogSegments and LogSegment.recover (4.3.1) for the list of checks.
"""

from collections.abc import Iterator

from kprod._core.record.batch_reader import RecordBatch
from kprod.errors import CorruptRecord
from kprod.record.entries import LogEntry, has_valid_crc


class LogVerifier:
    """Remembers the last offset and finds faults of the next entry."""

    __slots__ = ("_last_offset",)

    def __init__(self) -> None:
        self._last_offset: int | None = None

    def problems(self, entry: LogEntry) -> Iterator[str]:
        """Check one entry; the caller passes the entries of a log in order.

        Args:
            entry: An entry of any format; it is decompressed and its records are read.

        Yields:
            Its faults, each a sentence without a full stop; nothing for a valid entry.
        """
        if not has_valid_crc(entry):
            yield f"checksum is not {entry.crc}, as the entry says"
            return
        if isinstance(entry, RecordBatch):
            yield from self._after(entry.base_offset)
        try:
            yield from self._check_records(entry)
        except CorruptRecord as error:
            yield str(error)
        if isinstance(entry, RecordBatch):
            self._last_offset = max(entry.last_offset, entry.base_offset)

    def _check_records(self, entry: LogEntry) -> Iterator[str]:
        last_offset = entry.last_offset if isinstance(entry, RecordBatch) else None
        previous: int | None = None
        for record in entry:
            offset = record[0]
            if last_offset is None:
                yield from self._after(offset)
                self._last_offset = offset
            elif offset > last_offset or (previous is not None and offset <= previous):
                yield f"record offset {offset} after {previous} in a batch up to {last_offset}"
            previous = offset

    def _after(self, offset: int) -> Iterator[str]:
        if self._last_offset is not None and offset <= self._last_offset:
            yield f"offset {offset} follows offset {self._last_offset}"
