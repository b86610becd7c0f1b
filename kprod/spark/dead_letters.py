"""Rows that can never be records: told from other failures, and sent to a topic of their own.

What counts. The row itself is at fault, whatever is tried: too large, no such partition, refused by
the broker for what it holds, no topic. An error that may have left the record in the log, or that
another row would meet too (no broker, no permission), is never one. Nor is that of a sound row
whose batch was refused for others: it is sent again.

A dead letter has the row's key, headers and value, and three headers more: where it should have
gone, why it could not, and, in place of a value that was too large, how long that was.

Thread-safety: one task's.
"""

from typing import Any, TypeGuard

from kprod import Producer, RecordFuture
from kprod.errors import (
    BrokerError,
    KprodError,
    Persistence,
    RecordTooLarge,
    SerializationError,
    UnknownPartition,
)
from kprod.protocol.error_table import ErrorCode

__all__ = ["DeadLetters", "is_row_at_fault"]

TOPIC_HEADER = "kprod.topic"
ERROR_HEADER = "kprod.error"
VALUE_BYTES_HEADER = "kprod.value.bytes"
ERROR_CHARACTERS_MAX = 500

_LOCAL_FAULTS = (RecordTooLarge, SerializationError, UnknownPartition)
_TOO_LARGE_CODES = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_FAULT_CODES = _TOO_LARGE_CODES | {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}


def is_row_at_fault(error: Exception) -> bool:
    """Tell a fault of the row from any other.

    Args:
        error: Of its receipt.

    Returns:
        Whether the record could never have been delivered, and is in no log.
    """
    if isinstance(error, _LOCAL_FAULTS):
        return error.persistence is not Persistence.POSSIBLY_PERSISTED
    return _is_rejected(error) and not error.retriable


def is_companion(error: Exception) -> bool:
    """Tell a sound row from those for which its batch was refused.

    Args:
        error: Of its receipt.

    Returns:
        Whether the record is in no log, and may be taken when it is sent again.
    """
    return _is_rejected(error) and error.retriable


class DeadLetters:
    """Sends dead letters, and waits for them with the task's other records.

    Args:
        producer: The task's.
        topic: Where they go.
    """

    __slots__ = ("_futures", "_producer", "topic")

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._futures: list[RecordFuture] = []
        self.topic = topic

    def send(self, row: dict[str, Any], topic: str | None, error: Exception) -> None:
        """Send one.

        Args:
            row: The record's columns by role.
            topic: Where it should have gone; None where the row said nothing.
            error: Why it could not.

        Raises:
            KprodError: It cannot be a record here either.
        """
        headers = [(entry["key"], entry["value"]) for entry in row.get("headers") or ()]
        text = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
        headers += [(TOPIC_HEADER, (topic or "").encode()), (ERROR_HEADER, text.encode())]
        value = _bytes(row["value"])
        if _is_too_large(error) and value is not None:
            headers.append((VALUE_BYTES_HEADER, str(len(value)).encode()))
            value = None
        future = self._producer.send(self.topic, value, key=_bytes(row.get("key")), headers=headers)
        self._futures.append(future)

    def settle(self) -> None:
        """See that every one arrived; called after a flush.

        Raises:
            KprodError: One did not.
        """
        for future in self._futures:
            error = future.exception(0)
            if error is not None:
                raise KprodError(
                    f"a dead letter for {self.topic!r} is not delivered:"
                    f" {type(error).__name__}: {error}"
                ) from error
        self._futures.clear()


def _is_rejected(error: Exception) -> TypeGuard[BrokerError]:
    return (
        isinstance(error, BrokerError)
        and error.code in _FAULT_CODES
        and error.persistence is not Persistence.POSSIBLY_PERSISTED
    )


def _is_too_large(error: Exception) -> bool:
    is_rejected = isinstance(error, BrokerError) and error.code in _TOO_LARGE_CODES
    return is_rejected or isinstance(error, RecordTooLarge)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
