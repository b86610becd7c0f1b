"""Creates the errors of batches that no response settled.

Thread-safety: the sender; nothing here modifies a batch.
Source: Kafka ProducerBatch and Sender.failBatch (clients 4.3.1); kprod's departure 11.
"""

from kprod.error_text import error_text
from kprod.errors import KprodError, UnknownPartition
from kprod.producer.partition_queue import PartitionQueue


def gone_error(queue: PartitionQueue, left_count: int) -> KprodError:
    """Return the error for batches of a partition that no longer exists."""
    return UnknownPartition(
        f"partition {queue.partition} of {queue.topic!r} is gone: the topic was deleted and made"
        f" again; its last partition is now {left_count - 1}"
    )


def encoding_error(cause: Exception) -> KprodError:
    """Return the error for a batch that could not be encoded, by a codec or for lack of memory."""
    error = KprodError(f"the record's batch could not be encoded: {error_text(cause)}")
    error.__cause__ = cause
    return error


def failure_error(cause: Exception) -> KprodError:
    """Return the error for a batch whose response kprod failed to process."""
    error = KprodError(f"kprod failed on a broker's answer: {error_text(cause)}")
    error.__cause__ = cause
    return error
