"""One partition's batches in the order of their offsets, held in memory.

Batches are kept as they were sent, compressed bytes included; the log reads only headers. All that
others see is this class's public face (append, read, truncate, retain, look-ups), so that a log of
segments in a directory can stand in its place.

Invariants.
    Offsets never change and never repeat; batches follow each other without a gap.
    log_start_offset <= every batch's base offset < log_end_offset.
    size_bytes is the sum of the batches' sizes.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog for the words and for what retention may delete.
"""

import bisect
from collections.abc import Iterator, Sequence

from kprod.broker.log.stored_batch import StoredBatch


class PartitionLog:
    """The batches of one partition."""

    __slots__ = ("_base_offsets", "_batches", "log_end_offset", "log_start_offset", "size_bytes")

    def __init__(self) -> None:
        """Make an empty log that starts at offset 0."""
        self._batches: list[StoredBatch] = []
        self._base_offsets: list[int] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        """Number of batches."""
        return len(self._batches)

    def append(self, batch: StoredBatch) -> None:
        """Put a batch at the end; its base offset must be `log_end_offset`."""
        self._batches.append(batch)
        self._base_offsets.append(batch.base_offset)
        self.log_end_offset = batch.last_offset + 1
        self.size_bytes += len(batch.encoded)

    def read(self, offset: int, *, limit_offset: int, max_bytes: int) -> list[memoryview]:
        """Whole batches from the one that holds an offset.

        Args:
            offset: First offset wanted, within the log.
            limit_offset: Batches that begin at or beyond it are not given.
            max_bytes: Most bytes; the first batch comes whatever its size.

        Returns:
            Views of the stored bytes, not copies.
        """
        pieces: list[memoryview] = []
        left = max_bytes
        for batch in self._from(offset):
            if batch.base_offset >= limit_offset or (pieces and len(batch.encoded) > left):
                break
            pieces.append(batch.encoded)
            left -= len(batch.encoded)
            if left <= 0:
                break
        return pieces

    def bytes_between(self, offset: int, limit_offset: int, *, enough: int) -> int:
        """Bytes readable from an offset to a limit, counted no further than `enough`."""
        total = 0
        for batch in self._from(offset):
            if batch.base_offset >= limit_offset or total >= enough:
                break
            total += len(batch.encoded)
        return total

    def batches(self) -> Sequence[StoredBatch]:
        """All batches, oldest first; valid until the next change."""
        return self._batches

    def first_batch_at(self, timestamp_ms: int, limit_offset: int) -> StoredBatch | None:
        """The first batch that has a record of that time or later, before a limit."""
        for batch in self._batches:
            if batch.base_offset >= limit_offset:
                return None
            if batch.max_timestamp_ms >= timestamp_ms:
                return batch
        return None

    def latest_batch(self, limit_offset: int) -> StoredBatch | None:
        """The first batch with the largest timestamp, before a limit."""
        chosen: StoredBatch | None = None
        for batch in self._batches:
            if batch.base_offset >= limit_offset:
                break
            if chosen is None or batch.max_timestamp_ms > chosen.max_timestamp_ms:
                chosen = batch
        return chosen

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds an offset at or beyond this one."""
        while self._batches and self._batches[-1].last_offset >= offset:
            batch = self._batches.pop()
            self._base_offsets.pop()
            self.log_end_offset = batch.base_offset
            self.size_bytes -= len(batch.encoded)

    def retain(self, retention_bytes: int, *, limit_offset: int) -> None:
        """Drop oldest batches until the rest fits.

        Args:
            retention_bytes: Size to come down to; negative keeps all. The newest batch stays.
            limit_offset: Batches that reach it stay: they are not replicated yet.
        """
        if retention_bytes < 0 or self.size_bytes <= retention_bytes:
            return
        dropped = 0
        for batch in self._batches[:-1]:
            if self.size_bytes <= retention_bytes or batch.last_offset >= limit_offset:
                break
            self.size_bytes -= len(batch.encoded)
            self.log_start_offset = batch.last_offset + 1
            dropped += 1
        del self._batches[:dropped]
        del self._base_offsets[:dropped]

    def _from(self, offset: int) -> Iterator[StoredBatch]:
        first = max(bisect.bisect_right(self._base_offsets, offset) - 1, 0)
        if self._batches and self._batches[first].last_offset < offset:
            first += 1  # the offset is the log's end
        for index in range(first, len(self._batches)):
            yield self._batches[index]
