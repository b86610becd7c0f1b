"""The state of a partition's idempotent producers: epochs, last batches, open transactions.

A batch with the epoch and the sequences of one of the last five is a duplicate; its response has
the offset of the first copy. Any other batch must continue the newest one without a gap.

Rules.
    An unknown producer id may begin with any sequence.
    An epoch below the known one is rejected; one above it must begin with sequence 0.
    Within an epoch the first sequence is the last one plus 1, and 2³¹−1 is followed by 0.
    Within a transaction every batch is transactional; the coordinator's marker ends it.
    A producer without an open transaction that has not written for a long time is forgotten.

The state depends on the log alone, so it can be rebuilt after a truncation (`rebuild`).

Thread-safety: the broker's thread.
Source: Kafka ProducerStateManager, ProducerAppendInfo and ProducerStateEntry (4.3).
"""

from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.open_transactions import EndedTransaction, OpenTransactions
from kprod.broker.log.producer_snapshot import ProducerRow, encode_snapshot
from kprod.protocol.error_table import ErrorCode
from kprod.record.control import ControlType, decode_marker

BATCHES_KEPT = 5
_SEQUENCE_MASK = 0x7FFF_FFFF


class KnownBatch(NamedTuple):
    """A batch that is remembered to recognize its duplicates."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


_NO_BATCH = KnownBatch(-1, -1, -1, -1, -1)


class LastRecord(NamedTuple):
    """The last record of a producer, which compaction must retain.

    Attributes:
        offset: Offset of the last record of its last batch; −1 if only a marker is known.
        producer_epoch: Its newest epoch.
    """

    offset: int
    producer_epoch: int


class _Entry:
    """One producer's epoch and newest batches."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms")

    def __init__(self, epoch: int, coordinator_epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp_ms = -1
        self.batches: deque[KnownBatch] = deque(maxlen=BATCHES_KEPT)


class ProducerStates:
    """The idempotent producers of one partition.

    Attributes:
        transactions: Their open transactions.
    """

    __slots__ = ("_entries", "transactions")

    def __init__(self) -> None:
        """Start with no producers."""
        self._entries: dict[int, _Entry] = {}
        self.transactions: OpenTransactions = OpenTransactions()

    def __len__(self) -> int:
        """Number of known producers."""
        return len(self._entries)

    def last_records(self) -> dict[int, LastRecord]:
        """Return the last record of each producer, by producer id."""
        return {
            producer_id: LastRecord(
                entry.batches[-1].last_offset if entry.batches else -1, entry.epoch
            )
            for producer_id, entry in self._entries.items()
        }

    def duplicate_of(self, batch: RecordBatch) -> KnownBatch | None:
        """Return the remembered batch that this one duplicates, if any."""
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return None
        for known in entry.batches:
            if (known.base_sequence, known.last_sequence) == (
                batch.base_sequence,
                batch.last_sequence,
            ):
                return known
        return None

    def check(self, batch: RecordBatch) -> tuple[int, str]:
        """Check that a batch, which is not a duplicate, may be appended.

        Args:
            batch: A batch with a producer id.

        Returns:
            An error code, 0 if the batch may be appended, and the reason as text.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            return ErrorCode.NONE, ""
        if batch.producer_epoch < entry.epoch:
            message = f"epoch {batch.producer_epoch} is older than {entry.epoch}"
            return ErrorCode.INVALID_PRODUCER_EPOCH, message
        if not batch.is_transactional and batch.producer_id in self.transactions:
            message = f"producer {batch.producer_id} is in a transaction, and the batch is not"
            return ErrorCode.INVALID_TXN_STATE, message
        wanted = 0
        if batch.producer_epoch == entry.epoch and entry.batches:
            wanted = (entry.batches[-1].last_sequence + 1) & _SEQUENCE_MASK
        if batch.base_sequence != wanted:
            message = (
                f"producer {batch.producer_id} epoch {batch.producer_epoch}: "
                f"sequence {batch.base_sequence} where {wanted} follows"
            )
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message
        return ErrorCode.NONE, ""

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> tuple[int, str]:
        """Check that a marker may be appended.

        Args:
            producer_id: The id of the marker's producer.
            producer_epoch: The producer's epoch according to the coordinator.
            coordinator_epoch: Epoch of the coordinator that writes the marker.

        Returns:
            An error code, 0 if the marker may be appended, and the reason as text.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return ErrorCode.NONE, ""
        if producer_epoch < entry.epoch:
            message = f"epoch {producer_epoch} is older than {entry.epoch}"
            return ErrorCode.INVALID_PRODUCER_EPOCH, message
        if coordinator_epoch < entry.coordinator_epoch:
            message = f"coordinator epoch {coordinator_epoch} is older than"
            return (
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"{message} {entry.coordinator_epoch}",
            )
        return ErrorCode.NONE, ""

    def remember(self, batch: RecordBatch, base_offset: int) -> EndedTransaction | None:
        """Update the state with an appended batch; a batch without a producer id is ignored.

        Args:
            batch: The batch; its own base offset is ignored.
            base_offset: Its base offset in the log.

        Returns:
            The transaction that ended, if the batch is a marker.
        """
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        entry = self._entries.get(producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            coordinator_epoch = -1 if entry is None else entry.coordinator_epoch
            entry = self._entries[producer_id] = _Entry(batch.producer_epoch, coordinator_epoch)
        entry.last_timestamp_ms = batch.max_timestamp_ms
        if batch.is_control:
            return self._note_marker(batch, base_offset, entry)
        known = KnownBatch(
            batch.base_sequence,
            batch.last_sequence,
            base_offset,
            base_offset + batch.last_offset_delta,
            batch.max_timestamp_ms,
        )
        entry.batches.append(known)
        if batch.is_transactional:
            self.transactions.begin(producer_id, base_offset)
        return None

    def encoded(self) -> bytes:
        """Return the content of a `.snapshot` file, one entry for each producer."""
        rows = []
        for producer_id, entry in self._entries.items():
            last = entry.batches[-1] if entry.batches else _NO_BATCH
            rows.append(
                ProducerRow(
                    producer_id,
                    entry.epoch,
                    last.last_sequence,
                    last.last_offset,
                    max(last.last_offset - last.base_offset, 0),
                    entry.last_timestamp_ms,
                    entry.coordinator_epoch,
                    self.transactions.first_offset_of(producer_id),
                )
            )
        return encode_snapshot(rows)

    def restore(self, rows: Iterable[ProducerRow]) -> None:
        """Replace the state by that of a snapshot.

        Args:
            rows: The producers, as returned by `decode_snapshot`.
        """
        self._entries.clear()
        self.transactions.clear()
        for row in sorted(rows, key=attrgetter("open_offset")):
            entry = _Entry(row.producer_epoch, row.coordinator_epoch)
            entry.last_timestamp_ms = row.timestamp_ms
            self._entries[row.producer_id] = entry
            if row.open_offset >= 0:
                self.transactions.begin(row.producer_id, row.open_offset)
            if row.last_offset >= 0:
                base_sequence = (row.last_sequence - row.offset_delta) & _SEQUENCE_MASK
                base_offset = row.last_offset - row.offset_delta
                known = KnownBatch(
                    base_sequence,
                    row.last_sequence,
                    base_offset,
                    row.last_offset,
                    row.timestamp_ms,
                )
                entry.batches.append(known)

    def rebuild(self, batches: Iterable[RecordBatch]) -> None:
        """Rebuild the state from a log's batches, oldest first."""
        self._entries.clear()
        self.transactions.clear()
        for batch in batches:
            self.remember(batch, batch.base_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that have not written for a long time.

        Args:
            now_ms: Wall clock time, comparable to batch timestamps.
            expiration_ms: Maximum age of the newest batch (`producer.id.expiration.ms`).

        Returns:
            The number of producers that were forgotten; one with an open transaction is kept.
        """
        idle = [
            producer_id
            for producer_id, entry in self._entries.items()
            if now_ms - entry.last_timestamp_ms >= expiration_ms
            and producer_id not in self.transactions
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    def _note_marker(
        self, batch: RecordBatch, base_offset: int, entry: _Entry
    ) -> EndedTransaction | None:
        record = next(iter(batch), None)
        marker = None if record is None else decode_marker(record)
        if marker is None:
            return None  # compaction dropped its records, or it is of another kind
        entry.coordinator_epoch = marker.coordinator_epoch
        return self.transactions.end(
            batch.producer_id,
            base_offset,
            is_aborted=marker.control_type is ControlType.ABORT,
        )
