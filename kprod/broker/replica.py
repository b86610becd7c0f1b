"""One replica of a partition: a broker, and the offsets between which it has records.

Thread-safety: the broker's thread.
"""

from kprod.broker.log.partition_log import PartitionLog


class Replica:
    """One follower or the leader itself."""

    __slots__ = ("lag_ms", "log_end_offset", "log_start_offset", "node_id")

    def __init__(self, node_id: int, log: PartitionLog) -> None:
        """Make a replica that has all records of a log and copies at once."""
        self.node_id: int = node_id
        self.log_start_offset: int = log.log_start_offset
        self.log_end_offset: int = log.log_end_offset
        self.lag_ms: int | None = 0
