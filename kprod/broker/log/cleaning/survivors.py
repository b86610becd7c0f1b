"""Decides which records of a batch compaction retains.

Records, up to the last offset of the map.
    A record without a key is dropped (Produce rejects those; older logs may have them).
    A record older than the newest one of its key, or of an aborted transaction, is dropped.
    The newest record of a key with a value is retained.
    A tombstone is retained until the batch's delete horizon has passed.
    A marker is retained while a batch of its transaction exists; then it gets a delete horizon and
    is dropped after it.
Batches.
    If nothing was dropped and no horizon is to be set, the bytes stay the same.
    If a tombstone, or a marker without a transaction, is retained and the batch has no horizon yet,
    a horizon is set.
    If no record is retained but the batch has its producer's last sequence, or is the last batch of
    the new segment, its header alone is retained.
    Otherwise the batch is dropped.

Thread-safety: the broker's thread.
Source: Kafka Cleaner.cleanInto, shouldRetainRecord and MemoryRecords.filterTo (4.3); KIP-534.
"""

from typing import TYPE_CHECKING, NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.kept_records import KeptRecords
from kprod._core.record.offset_map import OffsetMap
from kprod.broker.log.cleaning.rewriting import with_horizon, with_records, without_records
from kprod.broker.log.cleaning.transactions import TransactionOutcomes
from kprod.broker.log.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kprod.broker.log.producer_state import LastRecord


class Horizon(NamedTuple):
    """Retention of tombstones and markers.

    Attributes:
        now_ms: Wall clock time of the round.
        delete_retention_ms: `delete.retention.ms`.
    """

    now_ms: int
    delete_retention_ms: int

    def is_over(self, horizon_ms: int | None) -> bool:
        """Whether a batch has a delete horizon that has passed."""
        return horizon_ms is not None and horizon_ms <= self.now_ms


class Kept(NamedTuple):
    """A retained batch.

    Attributes:
        encoded: The batch's bytes.
        record_count: Number of its records.
        max_timestamp_ms: Largest timestamp of its records; −1 without records.
        aborted: The entry for the transaction index, if the batch is an abort marker whose
            transaction has batches.
    """

    encoded: memoryview
    record_count: int
    max_timestamp_ms: int
    aborted: AbortedTransaction | None = None


class Survivors:
    """Filters the batches of a log, which must come in order from its beginning.

    Attributes:
        invalid_count: Number of records without a key, which were dropped.
        last_records: The last record of each known producer within the current group of segments.
    """

    __slots__ = ("_horizon", "_map", "_outcomes", "invalid_count", "last_records")

    def __init__(self, offsets: OffsetMap, outcomes: TransactionOutcomes, horizon: Horizon) -> None:
        """Create a filter that expects the log's first batch.

        Args:
            offsets: The newest offset of each key.
            outcomes: The aborted transactions.
            horizon: Retention of tombstones.
        """
        self._map = offsets
        self._outcomes = outcomes
        self._horizon = horizon
        self.invalid_count: int = 0
        self.last_records: Mapping[int, LastRecord] = {}

    def of(self, batch: RecordBatch, *, is_last: bool) -> Kept | None:
        """Filter one batch.

        Args:
            batch: The next one.
            is_last: Whether this is the last batch of its group of segments.

        Returns:
            The retained part; None if the batch is dropped.
        """
        if batch.is_control:
            kept = self._of_marker(batch)
        elif self._outcomes.is_aborted(batch):
            kept = None
        elif batch.base_offset > self._map.latest_offset:
            return _unchanged(batch)
        else:
            kept = self._of_records(batch)
        if kept is None and (is_last or self._is_last_of_producer(batch)):
            return Kept(without_records(batch), 0, -1)
        return kept

    def _of_marker(self, batch: RecordBatch) -> Kept | None:
        outcome = self._outcomes.end(batch)
        if outcome.is_needed:
            return _unchanged(batch)._replace(aborted=outcome.aborted)
        if not batch.record_count or self._horizon.is_over(batch.delete_horizon_ms):
            return None
        if batch.delete_horizon_ms is not None:
            return _unchanged(batch)
        return self._with_horizon(batch, KeptRecords(batch, None, drops_tombstones=False))

    def _of_records(self, batch: RecordBatch) -> Kept | None:
        drops_tombstones = self._horizon.is_over(batch.delete_horizon_ms)
        kept = KeptRecords(batch, self._map, drops_tombstones)
        self.invalid_count += kept.invalid_count
        if not kept.record_count:
            return None
        if kept.has_tombstone and batch.delete_horizon_ms is None:
            return self._with_horizon(batch, kept)
        if kept.record_count == batch.record_count:
            return _unchanged(batch)
        return Kept(with_records(batch, kept), kept.record_count, kept.max_timestamp_ms)

    def _with_horizon(self, batch: RecordBatch, kept: KeptRecords) -> Kept:
        horizon_ms = self._horizon.now_ms + self._horizon.delete_retention_ms
        encoded = with_horizon(batch, kept, horizon_ms)
        return Kept(encoded, kept.record_count, kept.max_timestamp_ms)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        last = self.last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.offset >= 0:
            return batch.last_offset == last.offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch


def _unchanged(batch: RecordBatch) -> Kept:
    count = batch.record_count
    return Kept(batch.view, count, batch.max_timestamp_ms if count else -1)
