"""The errors of batches that no broker settled: which text each has, and what it names.

Thread-safety: the sender's; nothing here changes a batch.
Source: Kafka ProducerBatch and Sender.failBatch (clients 4.3.1); kprod's departure 11.
"""

from kprod.cluster.metadata import Metadata
from kprod.errors import DeliveryTimeout, KprodError, UnknownPartition
from kprod.network.trouble_log import not_reached
from kprod.producer.batch import ProducerBatch
from kprod.producer.partition_queue import PartitionQueue
from kprod.wording import counted


def expired_error(batch: ProducerBatch, metadata: Metadata, timeout_ms: int) -> KprodError:
    """Make the error of a batch whose delivery deadline has passed.

    Args:
        batch: In flight or not.
        metadata: Says why its leader is not known, or not reached.
        timeout_ms: The setting `delivery_timeout_ms`.

    Returns:
        It names the topic, what the batch waited for, and the setting.
    """
    queue = batch.queue
    records = counted(batch.record_count, "record")
    leader = metadata.snapshot.leader_of(queue.topic, queue.partition)
    reason = "is in flight" if batch.in_flight else f"was tried {counted(batch.attempts, 'time')}"
    if leader is None:
        reason += f"; {_why_leaderless(queue, metadata)}"
    elif failure := metadata.connection_failures.by_address.get(leader.address):
        reason += f"; {not_reached(leader, failure)}"
    return DeliveryTimeout(
        f"{queue.topic} partition {queue.partition} did not acknowledge {records} within"
        f" delivery_timeout_ms={timeout_ms}: the batch {reason}"
    )


def gone_error(queue: PartitionQueue, left_count: int) -> KprodError:
    """Return the error of batches for a partition that does not exist any more."""
    return UnknownPartition(
        f"partition {queue.partition} of {queue.topic!r} is gone: the topic was deleted and made"
        f" again; its last partition is now {left_count - 1}"
    )


def encoding_error(cause: Exception) -> KprodError:
    """Return the error of a batch that a codec, or a lack of memory, kept from being encoded."""
    error = KprodError(f"the record's batch could not be encoded: {cause!r}")
    error.__cause__ = cause
    return error


def failure_error(cause: Exception) -> KprodError:
    """Return the error of a batch on whose response kprod itself failed."""
    error = KprodError(f"kprod failed on a broker's answer: {cause!r}")
    error.__cause__ = cause
    return error


def _why_leaderless(queue: PartitionQueue, metadata: Metadata) -> str:
    count = metadata.snapshot.partition_count(queue.topic)
    if count is not None and queue.partition >= count:
        return f"the topic has no partition {queue.partition} any more: its last is {count - 1}"
    is_lost = metadata.snapshot.is_bootstrap
    found = "no broker says who leads it" if is_lost else "the partition has no leader"
    return f"{found}: {metadata.trouble(queue.topic)}"
