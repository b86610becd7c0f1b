"""Fails batches at their delivery deadline, in flight or not.

Thread-safety: the sender.
Source: Kafka RecordAccumulator.expiredBatches, Sender.failBatch (clients 4.3.1); kprod's departures
    5, 6 and 11.
"""

from collections.abc import Callable

from kprod.cluster.metadata import Metadata
from kprod.errors import AuthenticationFailed, DeliveryTimeout, KprodError
from kprod.network.trouble_log import not_reached
from kprod.producer.batch import ProducerBatch
from kprod.producer.partition_queue import PartitionQueue
from kprod.wording import counted


class Expiry:
    """Fails batches whose delivery deadline has passed.

    Args:
        metadata: Explains why a leader is unknown or unreachable.
        timeout_ms: `delivery_timeout_ms`.
        fail: Fails one batch with an error.
    """

    __slots__ = ("_fail", "_metadata", "_timeout_ms")

    def __init__(
        self,
        metadata: Metadata,
        timeout_ms: int,
        fail: Callable[[ProducerBatch, KprodError], object],
    ) -> None:
        self._metadata = metadata
        self._timeout_ms = timeout_ms
        self._fail = fail

    def expire(self, batch: ProducerBatch) -> None:
        """Fail a batch, and before it the older batches of its partition.

        Args:
            batch: A batch whose deadline has passed.
        """
        queue = batch.queue
        if batch not in queue.batches:
            return
        while not batch.is_done and queue.batches and queue.batches[0] is not batch:
            # not younger, so its deadline is in this millisecond, too
            self._expire(queue.batches[0])
        if not batch.is_done:
            self._expire(batch)

    def _expire(self, batch: ProducerBatch) -> None:
        error = expired_error(batch, self._metadata, self._timeout_ms)
        if batch.in_flight:
            # A socket may still send its bytes, and its outcome is unknown: the partition sends
            # nothing until the request has its response or the connection is closed.
            batch.maybe_persisted = True
            batch.queue.rewind_later()
        self._fail(batch, error)


def expired_error(batch: ProducerBatch, metadata: Metadata, timeout_ms: int) -> KprodError:
    """Make the error of a batch whose delivery deadline has passed.

    Args:
        batch: The batch, in flight or not.
        metadata: Explains why its leader is unknown or unreachable.
        timeout_ms: `delivery_timeout_ms`.

    Returns:
        The error; it names the topic, the cause of the delay, and the setting. Its `__cause__` is
        the rejection of the login or of a certificate, if that is what delayed the batch.
    """
    queue = batch.queue
    records = counted(batch.record_count, "record")
    leader = metadata.snapshot.leader_of(queue.topic, queue.partition)
    reason = "is in flight" if batch.in_flight else f"was tried {counted(batch.attempts, 'time')}"
    if leader is None:
        reason += f"; {_why_leaderless(queue, metadata)}"
    elif failure := metadata.connection_failures.by_address.get(leader.address):
        rejection = metadata.connection_failures.rejection(leader.address)
        is_reached = isinstance(rejection, AuthenticationFailed)
        reason += f"; {failure if is_reached else not_reached(leader, failure)}"
    error = DeliveryTimeout(
        f"{queue.topic} partition {queue.partition} did not acknowledge {records} within"
        f" delivery_timeout_ms={timeout_ms}: the batch {reason}"
    )
    where = None if leader is None else leader.address
    error.__cause__ = metadata.connection_failures.rejection(where)
    return error


def _why_leaderless(queue: PartitionQueue, metadata: Metadata) -> str:
    count = metadata.snapshot.partition_count(queue.topic)
    if count is not None and queue.partition >= count:
        return f"the topic has no partition {queue.partition} any more: its last is {count - 1}"
    is_lost = metadata.snapshot.is_bootstrap
    found = "no broker says who leads it" if is_lost else "the partition has no leader"
    return f"{found}: {metadata.trouble(queue.topic)}"
