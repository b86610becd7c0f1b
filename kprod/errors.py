"""The exception tree: what went wrong, whether a retry can help, what became of the record.

Every error of kprod is a `KprodError`. Two class attributes drive behaviour, so that no code keeps
a list of classes: `retriable` (the same request may succeed later) and `refresh_metadata` (the
client's cluster metadata is out of date). An error that ends a send also says, in
`persistence`, whether the record may be in the log.

All errors survive `pickle` (Spark executors send them home): an error is made again from its
message alone, and its attributes travel in the instance's dictionary.

Thread-safety: immutable after construction, apart from `persistence`, which is set once.
Source: KIP-467 and librdkafka's rd_kafka_message_status for the idea of persistence.
"""

import enum
from typing import TypeVar

_AnyError = TypeVar("_AnyError", bound=BaseException)
_AnyKprodError = TypeVar("_AnyKprodError", bound="KprodError")


def without_frames(error: _AnyError) -> _AnyError:
    """Drop the tracebacks of an error that is to be kept, and of all that it came from.

    Frames hold whatever their functions had at hand: records, whole batches, their memory.

    Args:
        error: Any exception.

    Returns:
        The same exception, with its causes and contexts.
    """
    seen: dict[int, BaseException] = {}
    ahead: list[BaseException | None] = [error]
    while ahead:
        found = ahead.pop()
        if found is None or id(found) in seen:
            continue
        seen[id(found)] = found
        found.__traceback__ = None
        ahead += [found.__cause__, found.__context__]
        if isinstance(found, BaseExceptionGroup):
            ahead += found.exceptions
    return error


def own_copy(error: _AnyKprodError) -> _AnyKprodError:
    """Copy an error, for another caller, batch or request that it ends.

    Raising an error adds to its traceback, and each batch sets its own `persistence`; so no two of
    them share one.

    Args:
        error: Left as it is.

    Returns:
        An error of the same class with the same message, attributes, notes and cause, and without a
        traceback.
    """
    copied = type(error)(*error.args)
    attributes = error.__dict__
    copied.__dict__.update(attributes)
    if "__notes__" in attributes:
        copied.__notes__ = list(attributes["__notes__"])
    copied.__cause__ = error.__cause__
    return copied


class Persistence(enum.Enum):
    """Whether a record whose send failed may be in the log."""

    NOT_PERSISTED = "not persisted"
    """The record is not in the log and will not be."""
    POSSIBLY_PERSISTED = "possibly persisted"
    """The record was written to a broker at least in part, and no response settled its outcome."""


class KprodError(Exception):
    """Base of every error that kprod raises on purpose."""

    retriable: bool = False
    refresh_metadata: bool = False
    persistence: Persistence | None = None


class ConfigError(KprodError, ValueError):
    """A setting is unknown, malformed or out of bounds; the text names it, its value and bound."""


class ClosedError(KprodError):
    """The object was closed before or during the call."""


class ProducerForked(ClosedError):
    """The producer was made in a parent process; a child must make its own."""


class ConsumerForked(ClosedError):
    """The consumer was made in a parent process; a child must make its own."""


class ConcurrentPoll(KprodError, RuntimeError):
    """Another thread, or the caller itself further up, is inside `poll` or the iterator."""


class WakeupError(KprodError):
    """`wakeup` ended a `poll`; nothing was lost, and the next one continues."""


class NoOffset(KprodError):
    """Partitions have no valid position, and `auto_offset_reset` allows none to be chosen.

    Attributes:
        partitions: Topic and partition of each.
    """

    partitions: tuple[tuple[str, int], ...] = ()


class LogTruncated(KprodError):
    """Records that were read are no longer in the log, after an unclean election.

    Attributes:
        topic: Topic of the partition.
        partition: Partition number, from 0.
        offset: The reader's position.
        end_offset: Up to which the log is as it was read; −1 if the broker does not know.
    """

    topic: str = ""
    partition: int = -1
    offset: int = -1
    end_offset: int = -1


class CommitFailed(KprodError):
    """Offsets were not committed, and cannot be any more: the partitions are another member's.

    Attributes:
        partitions: Topic and partition of each.
    """

    partitions: tuple[tuple[str, int], ...] = ()


class CommitRetriable(KprodError):
    """Offsets were not committed because the group rebalances; `poll`, then commit again."""

    retriable = True


class RecordError(KprodError):
    """A record was rejected before it was appended; nothing was sent."""


class SerializationError(RecordError):
    """A serializer raised or returned something that is not bytes-like."""


class DeserializationFailed(KprodError):
    """A deserializer raised; the position stays on the record until it is skipped.

    Attributes:
        record: The record as it was read, for `Consumer.skip`.
        field: "key" or "value".
    """

    record: object = None
    field: str = ""


class RecordTooLarge(RecordError):
    """The record can never be sent with the present limits; the text names both sizes."""


class UnknownTopic(RecordError):
    """The cluster does not know the topic, and did not create it."""


class UnknownPartition(RecordError):
    """The topic exists and has no such partition."""


class Purged(KprodError):
    """The record was dropped by `purge` before it was sent."""


class RecordsFailed(KprodError):
    """Some records of a bulk send are not delivered; its receipt names each.

    Attributes:
        failed_count: Number of failed records.
    """

    failed_count: int = 0


class KprodTimeout(KprodError, TimeoutError):
    """Something did not happen within the time allowed."""


class BufferTimeout(KprodTimeout):
    """No memory came free within `max_block_ms`."""


class MetadataTimeout(KprodTimeout):
    """The cluster's metadata could not be had within `max_block_ms`; the text says why."""


class DeliveryTimeout(KprodTimeout):
    """The record was not acknowledged within `delivery_timeout_ms`."""


class RequestTimeout(KprodTimeout):
    """A broker did not respond within `request_timeout_ms`."""

    retriable = True


class ConnectionFailed(KprodError):
    """A connection to a broker could not be made or kept."""


class Disconnected(ConnectionFailed):
    """The connection went away while a request was in flight."""

    retriable = True
    refresh_metadata = True


class AuthenticationFailed(ConnectionFailed):
    """The broker rejected the credentials, or could not prove its identity."""


class TlsFailed(ConnectionFailed):
    """The TLS handshake failed.

    Attributes:
        is_identity: Whether a certificate was rejected, the broker's or the client's.
    """

    is_identity: bool = False


class LocalProtocolError(KprodError):
    """kprod was about to send what the protocol forbids: a bug in kprod."""


class RemoteProtocolError(KprodError):
    """The peer sent what the protocol forbids."""


class CorruptRecord(RemoteProtocolError):
    """Bytes that should be records are not: wrong checksum, length, magic or structure.

    Attributes:
        topic: The topic they were read from; None if the reader knows no topic.
        partition: 0-based; −1 where the reader knows no topic.
        offset: The first one that cannot be read; −1 where the reader knows no topic.
    """

    topic: str | None = None
    partition: int = -1
    offset: int = -1


class UnsupportedVersion(KprodError):
    """The peer and kprod share no version of a request."""


class UnsupportedCodec(KprodError):
    """The compression codec cannot be used with this record format or this broker."""


class BrokerError(KprodError):
    """A broker responded with an error code; `kprod.protocol.error_table` has a class for each.

    Attributes:
        code: The number on the wire; −1 is the server's "unknown error".
        name: The protocol's name for it.
    """

    code: int = -1
    name: str = "UNKNOWN_SERVER_ERROR"


class TransactionError(KprodError):
    """Base of the errors that concern a transaction."""


class AbortableError(TransactionError):
    """The transaction must be aborted; the producer may begin another."""


class FencedError(TransactionError):
    """A newer producer with the same transactional id has taken over; this one is done."""


class CommitUnknown(TransactionError):
    """It is not known whether the commit took place; commit again or close."""
