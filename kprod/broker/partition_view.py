"""A snapshot of a partition's state.

Thread-safety: immutable.
"""

from typing import NamedTuple

from kprod.broker.replication import Partition


class PartitionView(NamedTuple):
    """A snapshot of a partition."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int

    @classmethod
    def of(cls, partition: Partition) -> "PartitionView":
        """Describe a partition."""
        return cls(
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replicas),
            tuple(partition.isr),
            partition.log.log_start_offset,
            partition.log.log_end_offset,
            partition.high_watermark,
        )
