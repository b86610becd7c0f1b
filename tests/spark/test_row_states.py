"""States of a row that is not acknowledged."""

import pytest

from kprod.errors import (
    DeliveryTimeout,
    KprodError,
    Persistence,
    RecordTooLarge,
    SerializationError,
    UnknownPartition,
)
from kprod.producer.produce_response import companions_error
from kprod.protocol.error_table import ErrorCode, error_for
from kprod.spark.row_faults import RowFault
from kprod.spark.row_states import NEXT_STATE, Outcome, RowState, fault_of, outcome_of

REJECTED = error_for(ErrorCode.INVALID_RECORD, "?")
DENIED = error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "?")


def state_of(
    error: Exception, *, names_partition: bool = True, is_shared: bool = False
) -> RowState:
    """Return where a row with this error goes."""
    return NEXT_STATE[outcome_of(error, names_partition=names_partition, is_shared=is_shared)]


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RecordTooLarge("?"), RowFault.TOO_LARGE),
        (SerializationError("?"), RowFault.REJECTED),
        (UnknownPartition("?"), RowFault.UNKNOWN_PARTITION),
        (REJECTED, RowFault.REJECTED),
        (error_for(ErrorCode.INVALID_TIMESTAMP, "?"), RowFault.REJECTED),
        (error_for(ErrorCode.MESSAGE_TOO_LARGE, "?"), RowFault.TOO_LARGE),
    ],
)
def test_faults_of_the_row(error: Exception, fault: RowFault) -> None:
    """They make it a bad row, unless the record may be in the log."""
    assert state_of(error) is RowState.BAD
    assert fault_of(error) is fault
    persisted = type(error)("?")
    persisted.persistence = Persistence.POSSIBLY_PERSISTED  # type: ignore[attr-defined]
    assert state_of(persisted) is RowState.FAILED


@pytest.mark.parametrize("error", [KprodError("?"), ValueError("?"), DENIED, DeliveryTimeout("?")])
def test_errors_that_another_row_would_meet_too(error: Exception) -> None:
    """They fail the task, also where rows share them."""
    assert state_of(error) is state_of(error, is_shared=True) is RowState.FAILED


def test_rows_of_a_rejected_batch() -> None:
    """Those that the broker did not name are sent again; where it named none, in halves."""
    companion = companions_error(REJECTED, {9: KprodError("?")})
    assert state_of(companion, is_shared=True) is RowState.SENT_AGAIN
    assert state_of(REJECTED, is_shared=True) is RowState.SENT_IN_HALVES


def test_a_partition_that_a_key_chose_is_gone() -> None:
    """The topic was created again: no fault of the row."""
    assert state_of(UnknownPartition("?"), names_partition=False) is RowState.FAILED


def test_every_outcome_has_a_state() -> None:
    """The table is complete, and each state is reached."""
    assert set(NEXT_STATE) == set(Outcome)
    assert set(NEXT_STATE.values()) == set(RowState)
