"""What a partition knows of each idempotent producer: its epoch and its last five batches.

A batch equal in epoch and sequences to one of the last five is a duplicate and is answered with
the offset it got the first time. Any other batch must follow the newest one without a gap.

Rules.
    A producer id that the partition does not know may begin with any sequence.
    An epoch below the known one is refused; one above it must begin with sequence 0.
    In one epoch the first sequence is the last one plus 1, and 2³¹−1 is followed by 0.

The state follows from the log alone, so a truncated log gives it anew (`rebuild`).

Thread-safety: the broker's thread.
Source: Kafka ProducerStateManager, ProducerAppendInfo and ProducerStateEntry (4.3).
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.producer_snapshot import ProducerRow, encode_snapshot
from kprod.protocol.error_table import ErrorCode

BATCHES_KEPT = 5
_SEQUENCE_MASK = 0x7FFF_FFFF


class KnownBatch(NamedTuple):
    """A batch as remembered for recognising its duplicate."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


_NO_BATCH = KnownBatch(-1, -1, -1, -1, -1)


class _Entry:
    """One producer's epoch and newest batches."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[KnownBatch] = deque(maxlen=BATCHES_KEPT)


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Know nobody."""
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        """Number of producers known."""
        return len(self._entries)

    def duplicate_of(self, batch: RecordBatch) -> KnownBatch | None:
        """The remembered batch that this one repeats, if any."""
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
        """Judge a batch that is no duplicate.

        Args:
            batch: With a producer id.

        Returns:
            An error code, 0 when the batch may be appended, and what was wrong.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            return ErrorCode.NONE, ""
        if batch.producer_epoch < entry.epoch:
            message = f"epoch {batch.producer_epoch} is older than {entry.epoch}"
            return ErrorCode.INVALID_PRODUCER_EPOCH, message
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

    def remember(self, batch: RecordBatch, base_offset: int) -> None:
        """Take note of a batch that was appended; one without a producer id is nothing.

        Args:
            batch: Its own base offset does not matter.
            base_offset: Its place in the log.
        """
        if batch.producer_id < 0:
            return
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            entry = self._entries[batch.producer_id] = _Entry(batch.producer_epoch)
        if batch.is_control:
            return
        known = KnownBatch(
            batch.base_sequence,
            batch.last_sequence,
            base_offset,
            base_offset + batch.last_offset_delta,
            batch.max_timestamp_ms,
        )
        entry.batches.append(known)

    def encoded(self) -> bytes:
        """The content of a `.snapshot` file: the last batch of each producer."""
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
                    last.timestamp_ms,
                    coordinator_epoch=-1,
                    open_offset=-1,
                )
            )
        return encode_snapshot(rows)

    def restore(self, rows: Iterable[ProducerRow]) -> None:
        """Forget all and learn from a snapshot.

        Args:
            rows: As `decode_snapshot` gives them.
        """
        self._entries.clear()
        for row in rows:
            entry = self._entries[row.producer_id] = _Entry(row.producer_epoch)
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
        """Forget all and learn from a log's batches, oldest first."""
        self._entries.clear()
        for batch in batches:
            self.remember(batch, batch.base_offset)
