"""One segment of a log: a file of batches, and its sparse indexes by offset and by time.

When a batch is appended more than `index_interval_bytes` after the last indexed one, both indexes
get an entry for it; with an interval of 0 every batch gets one.

Invariants.
    base_offset <= every batch's base offset < next_offset; batches follow without overlap.
    `largest` is the largest timestamp of the segment and the first batch that has it.
    `size_bytes` is the file's size; it is kept here because each append needs it.

Thread-safety: the broker's thread.
Source: Kafka LogSegment (4.3).
"""

from collections.abc import Callable, Iterator

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.epochs import LeaderEpochs
from kprod.broker.log.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from kprod.broker.log.offset_index import OffsetIndex, last_position
from kprod.broker.log.open_transactions import EndedTransaction
from kprod.broker.log.sound_batches import joined, sound_batches
from kprod.broker.log.store import RecordFile, Store
from kprod.broker.log.stored_header import HEADER_BYTES, BatchHeader, read_header
from kprod.broker.log.time_index import NO_TIME, TimeEntry, TimeIndex
from kprod.broker.log.transaction_index import TransactionIndex
from kprod.errors import CorruptRecord
from kprod.guarded_log import guarded_logger
from kprod.record.reader import read_batches

RELATIVE_OFFSET_MAX = 2**31 - 1
"""Largest distance of an offset from its segment's base offset.

Both indexes hold such distances as signed 32-bit integers.
"""

Learn = Callable[[RecordBatch], EndedTransaction | None]
_logger = guarded_logger("kprod.broker")


def _learn_nothing(_: RecordBatch) -> None:
    """Ignore a batch."""


class Segment:
    """A segment: batches from a base offset on.

    Attributes:
        aborted: Index of the aborted transactions whose markers are in the segment.
        base_offset: First offset that the segment may hold.
        created_ms: Wall clock time of the creation or of the last append without a timestamp; for a
            loaded segment, the time of its file's last change.
        next_offset: Offset after the last record; `base_offset` if the segment is empty.
        size_bytes: Total size of the batches.
    """

    __slots__ = (
        "_file",
        "_first_timestamp_ms",
        "_index_interval_bytes",
        "_largest_ms",
        "_largest_offset",
        "_offsets",
        "_times",
        "_unindexed_bytes",
        "_unread",
        "aborted",
        "base_offset",
        "created_ms",
        "next_offset",
        "size_bytes",
    )

    def __init__(self, file: RecordFile, base_offset: int, *, index_interval_bytes: int) -> None:
        """Make an empty segment.

        Args:
            file: An empty file, or one that is given to `recover` next.
            base_offset: The base offset, 0 or more.
            index_interval_bytes: Bytes between two index entries, 0 or more.
        """
        self._file = file
        self._index_interval_bytes = index_interval_bytes
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._unindexed_bytes = 0
        # A trusted segment's indexes are loaded from this store on first use.
        self._unread: Store | None = None
        self.aborted: TransactionIndex = TransactionIndex()
        self.base_offset: int = base_offset
        self.created_ms: int = 0
        self.next_offset: int = base_offset
        self.size_bytes: int = file.size_bytes
        self._largest_ms, self._largest_offset = NO_TIME
        self._first_timestamp_ms: int | None = None

    @property
    def largest(self) -> TimeEntry:
        """The largest timestamp, and the first batch that has it."""
        self._need_indexes()
        return TimeEntry(self._largest_ms, self._largest_offset)

    @property
    def entry_counts(self) -> tuple[int, int]:
        """Number of entries of the offset index and of the time index."""
        self._need_indexes()
        return len(self._offsets), len(self._times)

    @property
    def first_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch; −1 without a batch or a timestamp."""
        if self._first_timestamp_ms is None:
            first = next(self.headers(), None)
            if first is None:
                return NO_TIME.timestamp_ms
            self._first_timestamp_ms = first.max_timestamp_ms
        return self._first_timestamp_ms

    def append(self, encoded: memoryview, last_offset: int, max_timestamp_ms: int) -> None:
        """Append a batch.

        Args:
            encoded: The batch, with its final offsets.
            last_offset: Offset of its last record; at most `RELATIVE_OFFSET_MAX` above
                `base_offset`.
            max_timestamp_ms: Its largest timestamp, −1 for a batch without records.
        """
        if self._unread is not None:  # not a call for each append
            self._need_indexes()
        position, size_bytes = self.size_bytes, len(encoded)
        self._file.append(encoded)
        self.size_bytes = position + size_bytes
        self._index_batch(position, size_bytes, last_offset, max_timestamp_ms)

    def trust(self, store: Store, next_offset: int | None) -> bool:
        """Accept the file and its indexes unchecked; indexes are loaded on first use.

        Args:
            store: The store with the index files.
            next_offset: Base offset of the next segment; None for the last segment, whose end is
                found by reading from the last index entry on.

        Returns:
            True if the end was found and the transaction index, if there is one, is sound;
            otherwise nothing has changed.
        """
        try:
            aborted = self._read_aborted(store)
            if next_offset is None:
                self._find_end(store)
            else:
                self.next_offset = next_offset
        except (ValueError, FileNotFoundError, CorruptRecord):
            self.next_offset, self._unindexed_bytes = self.base_offset, 0
            return False
        self._unread, self.aborted = store, aborted
        return True

    def recover(self, epochs: LeaderEpochs, learn: Learn = _learn_nothing) -> int:
        """Check and index every batch of a file that another process wrote.

        Args:
            epochs: Gets the leader epochs of the batches.
            learn: Called with each batch of a producer with an id; returns the transaction that the
                batch ends, if any.

        Returns:
            The number of bytes that were cut off, from the first corrupt batch on.
        """
        position = 0
        latest_epoch, offset_max = epochs.latest_epoch, self.base_offset + RELATIVE_OFFSET_MAX
        for batch in sound_batches(self._file):
            last_offset, size_bytes = batch.last_offset, batch.size_bytes
            if batch.base_offset < self.next_offset or last_offset > offset_max:
                break
            # Compaction may leave a header alone, whose timestamp is that of a dropped record.
            largest_ms = batch.max_timestamp_ms if batch.record_count else NO_TIME.timestamp_ms
            self._index_batch(position, size_bytes, last_offset, largest_ms)
            if batch.partition_leader_epoch > latest_epoch:
                latest_epoch = batch.partition_leader_epoch
                epochs.assign(latest_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                ended = learn(batch)
                if ended is not None:
                    self.aborted.note_ended(ended)
            position += size_bytes
        cut_bytes = self.size_bytes - position
        if cut_bytes:
            self._cut(position)
        return cut_bytes

    def _index_batch(
        self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int
    ) -> None:
        """Account for a batch in the file: index it if due, and move the segment's end past it."""
        relative_offset = last_offset - self.base_offset
        if max_timestamp_ms > self._largest_ms:
            self._largest_ms, self._largest_offset = max_timestamp_ms, relative_offset
        if not self._index_interval_bytes or self._unindexed_bytes > self._index_interval_bytes:
            self._offsets.append(relative_offset, position)
            self._times.maybe_append(self._largest_ms, self._largest_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes
        self.next_offset = last_offset + 1

    def locate(self, offset: int) -> BatchHeader | None:
        """Find the first batch that ends at or beyond an offset.

        Args:
            offset: Any offset.

        Returns:
            The batch's header; None if the segment ends before the offset.
        """
        self._need_indexes()
        position = self._offsets.floor_position(offset - self.base_offset)
        return next((it for it in self.headers(position) if it.last_offset >= offset), None)

    def place_of(self, offset: int) -> tuple[int, int] | None:
        """Find the first batch that ends at or beyond an offset.

        Args:
            offset: Any offset.

        Returns:
            Its position and its size in bytes; None if the segment ends before the offset.
        """
        if not self._index_interval_bytes:
            self._need_indexes()
            return self._offsets.ceiling(offset - self.base_offset, self.size_bytes)
        header = self.locate(offset)
        return None if header is None else (header.position, header.size_bytes)

    def offset_behind(self, position: int) -> int:
        """Return an upper bound for the offsets of all batches before a position.

        Args:
            position: A position in bytes.

        Returns:
            The offset of the next index entry, or the segment's end; it may be well above the tight
            bound.
        """
        self._need_indexes()
        relative_offset = self._offsets.ceiling_offset(position)
        return self.next_offset if relative_offset is None else self.base_offset + relative_offset

    def read(self, position: int, count_bytes: int) -> list[memoryview]:
        """Read a range of bytes that begins with a batch."""
        return self._file.read(position, count_bytes)

    def batch(self, header: BatchHeader) -> RecordBatch:
        """Read one whole batch."""
        encoded = joined(self._file.read(header.position, header.size_bytes))
        return next(read_batches(encoded, check_crc=False))

    def batches_from(self, offset: int) -> Iterator[RecordBatch]:
        """Read the batches from the one that contains an offset on."""
        if offset < self.next_offset:
            first = self.locate(offset)
            for header in self.headers(self.size_bytes if first is None else first.position):
                yield self.batch(header)

    def headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Read the batches' headers from a position on.

        Args:
            position: Position of a batch, or the segment's size.

        Yields:
            One header for each batch, in order.
        """
        while position < self.size_bytes:
            header = read_header(self._file.read(position, HEADER_BYTES)[0], position)
            yield header
            position += header.size_bytes

    def headers_at(self, timestamp_ms: int) -> Iterator[BatchHeader]:
        """Read the headers of all batches that may contain a timestamp or a later one.

        Args:
            timestamp_ms: The time wanted.

        Returns:
            Headers, starting at or before the first batch whose largest timestamp is at least
            `timestamp_ms`.
        """
        self._need_indexes()
        entry = self._times.floor(timestamp_ms)
        first = None if entry is NO_TIME else self.locate(self.base_offset + entry.relative_offset)
        return self.headers(0 if first is None else first.position)

    def save_indexes(self, store: Store, last_suffix: str = "") -> None:
        """Write the indexes; the last entry of the time index is the largest timestamp.

        The transaction index is written only if a transaction was aborted.

        Args:
            store: The store to write to.
            last_suffix: Appended to the files' names.
        """
        self._need_indexes()
        self._times.maybe_append(self._largest_ms, self._largest_offset)
        name = segment_file_name(self.base_offset, OFFSET_INDEX_SUFFIX) + last_suffix
        store.save(name, self._offsets)
        name = segment_file_name(self.base_offset, TIME_INDEX_SUFFIX) + last_suffix
        store.save(name, self._times)
        name = segment_file_name(self.base_offset, TRANSACTION_INDEX_SUFFIX) + last_suffix
        if self.aborted:
            store.save(name, self.aborted)
        elif store.exists(name):
            store.remove(name)  # its transactions were truncated away

    def sync(self) -> None:
        """Sync the batches."""
        self._file.sync()

    def sync_indexes(self, store: Store, last_suffix: str = "") -> None:
        """Sync the saved indexes.

        Args:
            store: The store that has the files.
            last_suffix: As for `save_indexes`.
        """
        for suffix in INDEX_SUFFIXES:
            name = segment_file_name(self.base_offset, suffix) + last_suffix
            if store.exists(name):
                store.sync(name)

    def reopen(self, store: Store) -> None:
        """Use the file with the segment's own name, after it was renamed to that."""
        self._file = store.open(segment_file_name(self.base_offset, LOG_SUFFIX))

    def truncate_to(self, offset: int) -> None:
        """Drop every batch with an offset at or beyond the given one."""
        header = self.locate(offset)
        if header is None:
            return
        self._cut(header.position)
        self.aborted.truncate(header.base_offset)
        self._offsets.truncate(header.position)
        self._times.truncate(header.base_offset - self.base_offset)
        # The number of bytes since the last entry is unknown, so the next batch may be indexed
        # early.
        self._unindexed_bytes = self._index_interval_bytes + 1
        self.next_offset = self.base_offset
        self._first_timestamp_ms = None
        self._largest_ms, self._largest_offset = NO_TIME
        for kept in self.headers():
            self._learn(kept)

    def _find_end(self, store: Store) -> None:
        """Read the headers after the last index entry."""
        name = segment_file_name(self.base_offset, OFFSET_INDEX_SUFFIX)
        position = last_position(store.load(name), self.size_bytes)
        self._unindexed_bytes = self.size_bytes - position
        while position < self.size_bytes:
            pieces = self._file.read(position, HEADER_BYTES)
            if len(pieces[0]) < HEADER_BYTES:
                raise ValueError("a header is cut off")
            header = read_header(pieces[0], position)
            position += header.size_bytes
            if header.size_bytes < HEADER_BYTES or header.last_offset < self.next_offset:
                raise ValueError("there is no batch where the index says")
            self.next_offset = header.last_offset + 1
        if position != self.size_bytes:
            raise ValueError("the last batch is cut off")

    def _read_aborted(self, store: Store) -> TransactionIndex:
        name = segment_file_name(self.base_offset, TRANSACTION_INDEX_SUFFIX)
        return TransactionIndex.decoded(store.load(name) if store.exists(name) else b"")

    def _need_indexes(self) -> None:
        if self._unread is not None:
            self._load_indexes(self._unread)
            self._unread = None

    def _load_indexes(self, store: Store) -> None:
        offset_name = segment_file_name(self.base_offset, OFFSET_INDEX_SUFFIX)
        time_name = segment_file_name(self.base_offset, TIME_INDEX_SUFFIX)
        try:
            offsets = OffsetIndex.decoded(store.load(offset_name), self.size_bytes)
            times = TimeIndex.decoded(store.load(time_name))
        except (ValueError, FileNotFoundError) as error:
            _logger.warning("the indexes of %s are built again: %s", store, error)
            self._index_again()
            return
        self._offsets, self._times = offsets, times
        self._largest_ms, self._largest_offset = times.last

    def _index_again(self) -> None:
        next_offset = self.next_offset
        self._offsets, self._times = OffsetIndex(), TimeIndex()
        self._largest_ms, self._largest_offset = NO_TIME
        self._unindexed_bytes = 0
        for it in self.headers():
            self._index_batch(it.position, it.size_bytes, it.last_offset, it.max_timestamp_ms)
        self.next_offset = next_offset

    def _learn(self, header: BatchHeader) -> None:
        self.next_offset = header.last_offset + 1
        if header.max_timestamp_ms > self._largest_ms:
            self._largest_ms = header.max_timestamp_ms
            self._largest_offset = header.last_offset - self.base_offset

    def _cut(self, size_bytes: int) -> None:
        self._file.truncate(size_bytes)
        self.size_bytes = size_bytes
