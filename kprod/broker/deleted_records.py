"""Raise a partition's log start offset: for DeleteRecords, and then on its followers.

Thread-safety: the broker's thread.
Source: Kafka Partition.deleteRecordsOnLeader, lowWatermarkIfLeader (4.3), KIP-107.
"""

from kprod.broker.rejection import Rejected
from kprod.broker.replication import Partition
from kprod.protocol.error_table import ErrorCode

HIGH_WATERMARK = -1
"""The offset that stands for the high watermark."""


def low_watermark(partition: Partition) -> int:
    """Return the lowest log start offset of the running followers; without any, the leader's."""
    return min(
        (it.log_start_offset for it in partition.alive_followers),
        default=partition.log.log_start_offset,
    )


def delete_records(partition: Partition, offset: int) -> int:
    """Let a partition's log begin later; the files before it are left to retention.

    Args:
        partition: The partition whose log is compacted.
        offset: First offset that stays; `HIGH_WATERMARK` for the high watermark.

    Returns:
        The offset that `low_watermark` reaches once every replica has done the same.

    Raises:
        Rejected: Compaction must keep the records, or the offset is not a replicated one.
    """
    config = partition.config
    if config.compacts and not config.deletes:
        raise Rejected(
            ErrorCode.POLICY_VIOLATION,
            f"{partition.name} has cleanup.policy={config.cleanup_policy}, without delete",
        )
    wanted = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= wanted <= partition.high_watermark:
        raise Rejected(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{wanted} is not between 0 and the high watermark {partition.high_watermark} of "
            f"{partition.name}",
        )
    try:
        partition.raise_start(wanted)
    except OSError as error:
        text = f"the start of {partition.name} cannot be written: {error}"
        raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
    return wanted
