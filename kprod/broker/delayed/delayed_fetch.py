"""A fetch that waits for records.

Behaviour.
    A. Any partition is led by another broker now, or is unknown or offline, or its offset is out of
       range: answer at once.
    B. Over all partitions the bytes below the high watermark, or below the last stable offset for
       readers of committed records, reach `min_bytes`: answer.
    C. A log cannot be read: respond immediately.
    D. Neither within `max_wait_ms`: answer with what there is.
A partition whose offset is in an older segment than the high watermark counts with all bytes that
the fetch wants of it; Kafka responds to such a fetch immediately.

Thread-safety: the broker's thread.
Source: Kafka DelayedFetch.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kprod.broker.partition_transactions import replica_end
from kprod.broker.replication import Partition
from kprod.timer.purgatory import DelayedOperation


class WaitingRead(NamedTuple):
    """One partition of the fetch.

    Attributes:
        partition: The partition.
        node_id: The broker that got the request.
        offset: First offset wanted.
        max_bytes: Most bytes wanted of this partition.
        isolation_level: 0 for all records, else only committed ones.
        is_follower: Whether the broker serves as a follower (KIP-392).
    """

    partition: Partition
    node_id: int
    offset: int
    max_bytes: int
    isolation_level: int = 0
    is_follower: bool = False


class DelayedFetch(DelayedOperation):
    """Waits until enough bytes are readable."""

    __slots__ = ("_finish", "_min_bytes", "_reads")

    def __init__(
        self,
        reads: Sequence[WaitingRead],
        *,
        min_bytes: int,
        max_wait_ms: int,
        finish: Callable[[], object],
    ) -> None:
        """Start to wait for bytes.

        Args:
            reads: The partitions of the fetch.
            min_bytes: Minimum number of bytes, over all partitions.
            max_wait_ms: Milliseconds after which the response is sent anyway.
            finish: Reads and sends the response.
        """
        super().__init__(max(max_wait_ms, 0))
        self._reads = reads
        self._min_bytes = min_bytes
        self._finish = finish

    def try_complete(self) -> bool:
        """Complete in the cases A and B."""
        try:
            is_enough = self._is_enough()
        except OSError:
            return self.force_complete()  # case C
        return is_enough and self.force_complete()

    def _is_enough(self) -> bool:
        available = 0
        for read in self._reads:
            partition = read.partition
            moved = (partition.leader_id != read.node_id) != read.is_follower
            if moved or partition.is_offline or not is_readable(partition, read.offset):
                return True  # case A
            available += partition.log.bytes_between(
                read.offset,
                replica_end(partition, read.node_id, read.isolation_level),
                enough=read.max_bytes,
            )
        return available >= self._min_bytes  # case B

    def on_complete(self) -> None:
        """Answer."""
        self._finish()


def is_readable(partition: Partition, offset: int) -> bool:
    """Whether an offset is within the log or at its end."""
    return partition.log.log_start_offset <= offset <= partition.log.log_end_offset
