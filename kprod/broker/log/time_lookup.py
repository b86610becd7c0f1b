"""Finds records by their timestamps.

Segments whose largest timestamp is too small are skipped. In the first remaining one, the time
index leads close to the batch, which is then read record by record.

Complexity: O(log n) for a segment and its index, plus the bytes between two index entries.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog.fetchOffsetByTimestamp, FileRecords.searchForTimestamp (4.3), KIP-734.
"""

from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.partition_log import PartitionLog


class TimedOffset(NamedTuple):
    """The result of a lookup by time.

    Attributes:
        offset: The record's offset.
        timestamp_ms: Its timestamp.
        leader_epoch: Epoch of the leader that appended it.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_record_at(log: PartitionLog, timestamp_ms: int) -> TimedOffset | None:
    """Find the first record whose timestamp is at or after a time.

    Args:
        log: The log to search.
        timestamp_ms: Milliseconds since 1970, 0 or more.

    Returns:
        The record, at or above the log's start; None if there is none.
    """
    for batch in log.batches_at(timestamp_ms):
        found = _record_at(batch, timestamp_ms, log.log_start_offset)
        if found is not None:
            return found  # the header's timestamp may be that of a record below the log's start
    return None


def latest_record(log: PartitionLog) -> TimedOffset | None:
    """Find the first record with the largest timestamp.

    Args:
        log: The log to search.

    Returns:
        The record itself, not the last one of its batch (KAFKA-16310); None for an empty log.
    """
    batch = _latest_batch(log)
    return None if batch is None else _record_at(batch, batch.max_timestamp_ms, 0)


def _latest_batch(log: PartitionLog) -> RecordBatch | None:
    """Return the first batch with the largest timestamp."""
    filled = [it for it in log.segments if it.size_bytes]
    if not filled:
        return None
    segment = max(filled, key=lambda it: it.largest.timestamp_ms)
    latest_ms = segment.largest.timestamp_ms
    headers = segment.headers_at(latest_ms)
    return next(segment.batch(it) for it in headers if it.max_timestamp_ms >= latest_ms)


def _record_at(batch: RecordBatch, timestamp_ms: int, start_offset: int) -> TimedOffset | None:
    for record in batch:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimedOffset(record.offset, record.timestamp_ms, batch.partition_leader_epoch)
    return None
