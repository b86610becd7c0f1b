"""One replica of a partition: a broker, and the offsets that it has.

Thread-safety: the broker's thread.
"""

from kprod.broker.log.partition_log import PartitionLog


class Replica:
    """A follower, or the leader."""

    __slots__ = ("lag_ms", "log_end_offset", "log_start_offset", "node_id")

    def __init__(self, node_id: int, log: PartitionLog) -> None:
        """Create a replica that has all records of a log and copies immediately."""
        self.node_id: int = node_id
        self.log_start_offset: int = log.log_start_offset
        self.log_end_offset: int = log.log_end_offset
        self.lag_ms: int | None = 0
