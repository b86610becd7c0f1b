"""One segment of a log: a file of batches, and sparse indexes by offset and by time.

Before a batch is appended that lies more than `index_interval_bytes` behind the last entry, both
indexes get an entry for it; with an interval of 0 every batch has one.

Invariants.
    base_offset <= every batch's base offset < next_offset; batches follow without overlap.
    `largest` is the largest timestamp of the segment and the first batch that has it.

Thread-safety: the broker's thread.
Source: Kafka LogSegment (4.3).
"""

from collections.abc import Iterator

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.epochs import LeaderEpochs
from kprod.broker.log.file_names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_file_name,
)
from kprod.broker.log.offset_index import OffsetIndex
from kprod.broker.log.store import RecordFile, Store
from kprod.broker.log.stored_header import HEADER_BYTES, BatchHeader, read_header
from kprod.broker.log.time_index import NO_TIME, TimeEntry, TimeIndex
from kprod.errors import CorruptRecord
from kprod.record.reader import read_batches

RELATIVE_OFFSET_MAX = 2**31 - 1
"""Both indexes hold offsets relative to the segment's base as signed 32-bit integers."""

_WINDOW_BYTES = 1 << 20


class Segment:
    """Batches from a base offset on.

    Attributes:
        base_offset: First offset that the segment may hold.
        next_offset: One above the last record's; `base_offset` while it is empty.
        largest: The largest timestamp.
    """

    __slots__ = (
        "_file",
        "_index_interval_bytes",
        "_offsets",
        "_times",
        "_unindexed_bytes",
        "base_offset",
        "largest",
        "next_offset",
    )

    def __init__(self, file: RecordFile, base_offset: int, *, index_interval_bytes: int) -> None:
        """Make an empty segment.

        Args:
            file: Empty, or to be read by `recover` at once.
            base_offset: 0 or more.
            index_interval_bytes: Bytes between two entries of an index, 0 or more.
        """
        self._file = file
        self._index_interval_bytes = index_interval_bytes
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._unindexed_bytes = 0
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.largest = NO_TIME

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self._file.size_bytes

    def append(self, encoded: memoryview, last_offset: int, max_timestamp_ms: int) -> None:
        """Put a batch at the end.

        Args:
            encoded: The batch, with its final offsets in it.
            last_offset: Of its last record; at most `RELATIVE_OFFSET_MAX` above `base_offset`.
            max_timestamp_ms: Its largest timestamp.
        """
        position = self._file.size_bytes
        self._file.append(encoded)
        self._note(position, len(encoded), last_offset, max_timestamp_ms)

    def recover(self, epochs: LeaderEpochs) -> int:
        """Check every batch of a file that another process wrote, and index it.

        Args:
            epochs: Learns the leader epochs of the batches.

        Returns:
            Bytes that were cut off from the first unsound batch on.
        """
        position = 0
        for batch in self._sound_batches():
            last_offset = batch.last_offset
            rises = self.next_offset <= batch.base_offset <= last_offset
            if not rises or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                break
            self._note(position, batch.size_bytes, last_offset, batch.max_timestamp_ms)
            if batch.partition_leader_epoch > epochs.latest_epoch:
                epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            position += batch.size_bytes
        cut_bytes = self._file.size_bytes - position
        if cut_bytes:
            self._file.truncate(position)
        return cut_bytes

    def _note(
        self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int
    ) -> None:
        relative_offset = last_offset - self.base_offset
        if max_timestamp_ms > self.largest.timestamp_ms:
            self.largest = TimeEntry(max_timestamp_ms, relative_offset)
        if self._unindexed_bytes > self._index_interval_bytes or not self._index_interval_bytes:
            self._offsets.append(relative_offset, position)
            self._times.maybe_append(self.largest)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes
        self.next_offset = last_offset + 1

    def locate(self, offset: int) -> BatchHeader | None:
        """Find the first batch that ends at or beyond an offset.

        Args:
            offset: Any.

        Returns:
            The batch's header; None when the segment ends before.
        """
        position = self._offsets.floor_position(offset - self.base_offset)
        return next((it for it in self.headers(position) if it.last_offset >= offset), None)

    def place_of(self, offset: int) -> tuple[int, int] | None:
        """Find the first batch that ends at or beyond an offset.

        Args:
            offset: Any.

        Returns:
            Its position and its size in bytes; None when the segment ends before.
        """
        if not self._index_interval_bytes:
            return self._offsets.ceiling(offset - self.base_offset, self._file.size_bytes)
        header = self.locate(offset)
        return None if header is None else (header.position, header.size_bytes)

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Read a range of bytes, beginning with a batch."""
        return self._file.read(position, count_bytes)

    def batch(self, header: BatchHeader) -> RecordBatch:
        """Read one whole batch."""
        encoded = _joined(self._file.read(header.position, header.size_bytes))
        return next(read_batches(encoded, check_crc=False))

    def headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Read the batches' headers from a position on.

        Args:
            position: Of a batch's first byte, or the segment's size.

        Yields:
            One header for each batch, in order.
        """
        while position < self._file.size_bytes:
            header = read_header(self._file.read(position, HEADER_BYTES)[0], position)
            yield header
            position += header.size_bytes

    def headers_at(self, timestamp_ms: int) -> Iterator[BatchHeader]:
        """Read the headers of all batches that a look-up by time must consider.

        Args:
            timestamp_ms: The time wanted.

        Returns:
            Headers from one at or before the first batch that is as late as `timestamp_ms`.
        """
        entry = self._times.floor(timestamp_ms)
        first = None if entry is NO_TIME else self.locate(self.base_offset + entry.relative_offset)
        return self.headers(0 if first is None else first.position)

    def save_indexes(self, store: Store) -> None:
        """Write both indexes, the largest timestamp as the last entry by time."""
        self._times.maybe_append(self.largest)
        store.save(segment_file_name(self.base_offset, OFFSET_INDEX_SUFFIX), self._offsets)
        store.save(segment_file_name(self.base_offset, TIME_INDEX_SUFFIX), self._times)

    def sync(self, store: Store, *, save_indexes: bool) -> None:
        """Make batches and indexes survive a crash.

        Args:
            store: Holds the segment's files.
            save_indexes: Whether the indexes have entries that are not in their files.
        """
        self._file.sync()
        if save_indexes:
            self.save_indexes(store)
        store.sync(segment_file_name(self.base_offset, OFFSET_INDEX_SUFFIX))
        store.sync(segment_file_name(self.base_offset, TIME_INDEX_SUFFIX))

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds an offset at or beyond this one."""
        header = self.locate(offset)
        if header is None:
            return
        self._file.truncate(header.position)
        self._offsets.truncate(header.position)
        self._times.truncate(header.base_offset - self.base_offset)
        # Bytes since the last entry are not known; the next batch may get one early.
        self._unindexed_bytes = self._index_interval_bytes + 1
        self.next_offset = self.base_offset
        self.largest = NO_TIME
        for kept in self.headers():
            self._learn(kept)

    def _sound_batches(self) -> Iterator[RecordBatch]:
        position, window_bytes = 0, _WINDOW_BYTES
        while position < self._file.size_bytes:
            left_bytes = self._file.size_bytes - position
            window = _joined(self._file.read(position, min(window_bytes, left_bytes)))
            reader = read_batches(window, check_crc=True)
            consumed_bytes = 0
            try:
                for batch in reader:
                    consumed_bytes += batch.size_bytes
                    yield batch
            except CorruptRecord:
                return
            position += consumed_bytes
            if not consumed_bytes:
                if len(window) == left_bytes or reader.needed_bytes > left_bytes:
                    return  # the last batch is cut off
                window_bytes = max(window_bytes, reader.needed_bytes)

    def _learn(self, header: BatchHeader) -> None:
        self.next_offset = header.last_offset + 1
        if header.max_timestamp_ms > self.largest.timestamp_ms:
            relative_offset = header.last_offset - self.base_offset
            self.largest = TimeEntry(header.max_timestamp_ms, relative_offset)


def _joined(pieces: list[memoryview]) -> bytes | memoryview:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
