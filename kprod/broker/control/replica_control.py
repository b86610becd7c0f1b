"""Controls the replicas of a partition: lead, lag, catch up, lose records.

Thread-safety: as `EmbeddedCluster`.
"""

from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.partition_view import PartitionView
from kprod.broker.rejection import Rejected
from kprod.protocol.error_table import ErrorCode


class ReplicaControl:
    """Methods of an `EmbeddedCluster` about its partitions' replicas."""

    __slots__ = ()

    _kprod: ClusterRunner

    def describe(self, topic: str, partition: int) -> PartitionView:
        """Return a partition's leader, replicas and offsets."""
        return self._kprod.call(
            lambda: PartitionView.of(self._kprod.engine.partition(topic, partition))
        )

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Make another broker the leader of a partition.

        Args:
            topic: Topic of the partition.
            partition: Index of the partition.
            to: Id of a running broker. If its replica lags behind, the rest of the log is lost; if
                it has no replica, it gets the old leader's.

        Raises:
            Rejected: The partition is unknown, or the broker does not run.
        """

        def move() -> None:
            if not self._kprod.engine.state.is_alive(to):
                raise Rejected(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {to} does not run")
            self._kprod.engine.partition(topic, partition).lead(to)
            self._kprod.engine.state.recount()

        self._kprod.call(move)

    def truncate(self, topic: str, partition: int, to_offset: int) -> None:
        """Drop all batches that reach an offset, acknowledged or not, on all replicas.

        Args:
            topic: Topic name.
            partition: Index of the partition.
            to_offset: The new end of the log; not below its start.

        Raises:
            Rejected: The partition is unknown.
            ValueError: The log starts behind the offset; a DeleteRecords request moves a start.
        """

        def cut() -> None:
            replicated = self._kprod.engine.partition(topic, partition)
            start = replicated.log.log_start_offset
            if to_offset < start:
                raise ValueError(
                    f"to_offset ({to_offset}) is below the start of the log of topic {topic!r},"
                    f" partition {partition}, which is at {start}; give {start} to drop all records"
                )
            replicated.truncate(to_offset)
            self._kprod.engine.state.recount()

        self._kprod.call(cut)

    def set_follower_lag(self, topic: str, partition: int, broker: int, lag_ms: int | None) -> None:
        """Set how long after an append a follower copies it; 0 for at once, None for never."""
        self._kprod.call(
            lambda: self._kprod.engine.partition(topic, partition).set_lag(broker, lag_ms)
        )

    def catch_up(self, topic: str, partition: int, broker: int) -> None:
        """Make a lagging follower copy everything, once."""
        self._kprod.call(lambda: self._kprod.engine.partition(topic, partition).catch_up(broker))
