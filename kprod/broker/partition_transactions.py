"""The transactions of one partition: writes markers, and calculates the last stable offset.

Invariants.
    log_start_offset <= last stable offset <= high_watermark.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog.lastStableOffset and ProducerAppendInfo (4.3); KIP-98.
"""

from kprod.broker.rejection import RejectedByLog
from kprod.broker.replication import Appended, Partition
from kprod.protocol.error_table import ErrorCode
from kprod.record.control import EndMarker, encode_marker_batch
from kprod.record.reader import read_batches


def last_stable_offset(partition: Partition) -> int:
    """Return the last stable offset.

    Args:
        partition: A partition of any broker.

    Returns:
        The offset below which no transaction is open and every marker is fully replicated.
    """
    unstable = partition.producers.transactions.first_unstable_offset
    if unstable is None:
        return partition.high_watermark
    return min(max(unstable, partition.log.log_start_offset), partition.high_watermark)


def readable_end(partition: Partition, isolation_level: int) -> int:
    """Return the offset up to which a consumer may read.

    Args:
        partition: The partition.
        isolation_level: 0 for all records, 1 for committed ones.

    Returns:
        The high watermark or the last stable offset.
    """
    return last_stable_offset(partition) if isolation_level else partition.high_watermark


def replica_end(partition: Partition, node_id: int, isolation_level: int) -> int:
    """Return the offset at which a consumer's reading ends at one replica.

    Args:
        partition: The partition to read.
        node_id: Id of a node with a replica.
        isolation_level: 0 for all records, else only committed ones.

    Returns:
        For the leader the same as `readable_end`.
    """
    copied = partition.replicas[node_id].log_end_offset
    return min(readable_end(partition, isolation_level), copied)


def append_marker(
    partition: Partition,
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
) -> Appended:
    """End a producer's transaction in a partition, as the transaction coordinator does.

    Args:
        partition: The partition.
        marker: A commit or an abort.
        producer_id: The producer's id; it need not have a transaction here.
        producer_epoch: Its epoch.
        timestamp_ms: Wall clock time.

    Returns:
        The position of the marker.

    Raises:
        RejectedByLog: A later epoch of the producer or of the coordinator is known.
    """
    code, text = partition.producers.check_marker(
        producer_id, producer_epoch, marker.coordinator_epoch
    )
    if code != ErrorCode.NONE:
        raise RejectedByLog(code, text)
    encoded = memoryview(
        encode_marker_batch(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=timestamp_ms,
        )
    )
    batch = next(read_batches(encoded, check_crc=False))
    base_offset = partition.store(batch, encoded, timestamp_ms)
    return Appended(base_offset, base_offset, -1)
