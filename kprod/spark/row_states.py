"""States of a row that was sent: a table from the receipt's outcome to the row's next state.

Only an error that the row itself causes makes it a bad row: it is too large, its partition does not
exist, nobody may write to the topic that it names, or the broker rejects its content. The task
fails with an error that may have left the record in the log, or that any row would get (no broker,
no permission). A valid row whose batch was rejected because of other rows is sent again.

Thread-safety: pure functions.
"""

import enum

from kprod.errors import (
    BrokerError,
    Persistence,
    RecordTooLarge,
    SerializationError,
    UnknownPartition,
)
from kprod.protocol.error_table import ErrorCode
from kprod.spark.row_faults import RowFault

__all__ = ["NEXT_STATE", "Outcome", "RowState", "fault_of", "outcome_of"]

_LOCAL_FAULTS = (RecordTooLarge, SerializationError, UnknownPartition)
_TOO_LARGE_CODES = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_FAULT_CODES = _TOO_LARGE_CODES | {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}


class RowState(enum.Enum):
    """The next action for a row that was sent and not acknowledged."""

    SENT_AGAIN = enum.auto()
    """Sent with the other valid rows of its rejected batch."""
    SENT_IN_HALVES = enum.auto()
    """Sent with one half of its rejected batch, until a batch is a single row."""
    BAD = enum.auto()
    """Left out and counted; also sent to the dead letter topic if one is configured."""
    FAILED = enum.auto()
    """The task fails with the row's error."""


class Outcome(enum.Enum):
    """The outcome in the receipt for a row that is not acknowledged."""

    UNFIT = enum.auto()
    """The producer rejected the record, or the broker every record for the topic that it names."""
    REJECTED = enum.auto()
    """The broker rejected this record, or a batch of this record alone."""
    REJECTED_WITH_OTHERS = enum.auto()
    """The broker rejected the batch and named no record."""
    REJECTED_FOR_OTHERS = enum.auto()
    """The broker rejected the batch and named other records."""
    ELSE = enum.auto()
    """Any other error."""


NEXT_STATE = {
    Outcome.UNFIT: RowState.BAD,
    Outcome.REJECTED: RowState.BAD,
    Outcome.REJECTED_WITH_OTHERS: RowState.SENT_IN_HALVES,
    Outcome.REJECTED_FOR_OTHERS: RowState.SENT_AGAIN,
    Outcome.ELSE: RowState.FAILED,
}


def outcome_of(
    error: Exception, *, names_topic: bool = False, names_partition: bool, is_shared: bool
) -> Outcome:
    """Tell a fault of the row from any other error.

    Args:
        error: The row's, from its receipt.
        names_topic: Whether the row itself names its topic.
        names_partition: Whether the row itself names its partition. Where a key chose it, the
            partition was there: the topic was deleted and created again meanwhile.
        is_shared: Whether other rows of the receipt have the same error object.

    Returns:
        The outcome.
    """
    if getattr(error, "persistence", None) is Persistence.POSSIBLY_PERSISTED:
        return Outcome.ELSE
    if isinstance(error, _LOCAL_FAULTS):
        is_fault = names_partition or not isinstance(error, UnknownPartition)
        return Outcome.UNFIT if is_fault else Outcome.ELSE
    if names_topic and _is_unusable_topic(error):
        return Outcome.UNFIT
    if not isinstance(error, BrokerError) or error.code not in _FAULT_CODES:
        return Outcome.ELSE
    if error.retriable:
        return Outcome.REJECTED_FOR_OTHERS
    return Outcome.REJECTED_WITH_OTHERS if is_shared else Outcome.REJECTED


def fault_of(error: Exception) -> RowFault:
    """Name the fault of a bad row.

    Args:
        error: Error of an outcome that makes the row a bad one.

    Returns:
        The fault.
    """
    if isinstance(error, UnknownPartition):
        return RowFault.UNKNOWN_PARTITION
    if _is_unusable_topic(error):
        return RowFault.UNUSABLE_TOPIC
    if isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return RowFault.UNKNOWN_TOPIC
    if isinstance(error, BrokerError):
        return RowFault.TOO_LARGE if error.code in _TOO_LARGE_CODES else RowFault.REJECTED
    return RowFault.TOO_LARGE if isinstance(error, RecordTooLarge) else RowFault.REJECTED


def _is_unusable_topic(error: Exception) -> bool:
    return isinstance(error, BrokerError) and error.code == ErrorCode.INVALID_TOPIC_EXCEPTION
