"""The errors of batches that no broker settled: which text each has, and what it names.

Thread-safety: the sender's; nothing here changes a batch.
Source: Kafka ProducerBatch and Sender.failBatch (clients 4.3.1); kprod's departure 11.
"""

from kprod.errors import KprodError, UnknownPartition
from kprod.producer.partition_queue import PartitionQueue


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
