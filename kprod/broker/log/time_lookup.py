"""Finds records by their timestamps.

Segments whose largest timestamp is too low are passed over; in the first that is late enough the
index by time leads close to the batch, and the batch is read record by record.

Complexity: O(log n) for a segment and its index, then the bytes between two index entries.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog.fetchOffsetByTimestamp, FileRecords.searchForTimestamp (4.3), KIP-734.
"""

from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.partition_log import PartitionLog


class TimedOffset(NamedTuple):
    """A record that was found.

    Attributes:
        offset: Its offset.
        timestamp_ms: Its timestamp.
        leader_epoch: Of the leader that appended it.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_record_at(log: PartitionLog, timestamp_ms: int) -> TimedOffset | None:
    """Find the first record that is as late as a time.

    Args:
        log: Where.
        timestamp_ms: Milliseconds since 1970, 0 or more.

    Returns:
        The record, of those that the log's start has not passed; None when there is none.
    """
    for batch in log.batches_at(timestamp_ms):
        found = _record_at(batch, timestamp_ms, log.log_start_offset)
        if found is not None:
            return found  # a batch may have none: the header's time may be of a record before
    return None


def latest_record(log: PartitionLog) -> TimedOffset | None:
    """Find the first record with the largest timestamp of all.

    Args:
        log: Where.

    Returns:
        The record itself, not the last one of its batch (KAFKA-16310); None of an empty log.
    """
    batch = log.latest_batch()
    return None if batch is None else _record_at(batch, batch.max_timestamp_ms, 0)


def _record_at(batch: RecordBatch, timestamp_ms: int, start_offset: int) -> TimedOffset | None:
    for record in batch:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimedOffset(record.offset, record.timestamp_ms, batch.partition_leader_epoch)
    return None
