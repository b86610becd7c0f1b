"""The checker finds the faults of twelve histories, and nothing with sound ones."""

from collections.abc import Sequence

import pytest

from tests.checker.checks import Anomaly, Promises, check_history
from tests.checker.history import (
    NOT_PERSISTED,
    OFFSET_UNKNOWN,
    POSSIBLY_PERSISTED,
    Invoke,
    Logged,
    Settle,
    results_of,
)

Events = Sequence[Invoke | Settle]


def _sends(count: int) -> list[Invoke | Settle]:
    """Return the sends of one caller, of which none is settled."""
    return [Invoke(record, 0, record) for record in range(count)]


def _acknowledged(offsets: Sequence[int]) -> list[Invoke | Settle]:
    """Return sends of one caller, each acknowledged at an offset of partition 0."""
    settled = [Settle(100 + record, record, 0, offset) for record, offset in enumerate(offsets)]
    return [*_sends(len(offsets)), *settled]


WRONG: dict[str, tuple[Events, Sequence[Logged], Anomaly]] = {
    "a record is acknowledged and not there": (
        _acknowledged([0, 1]),
        [Logged(0, 0, 0)],
        Anomaly.LOST,
    ),
    "a record is acknowledged in another partition": (
        _acknowledged([0]),
        [Logged(1, 0, 0)],
        Anomaly.LOST,
    ),
    "a record is acknowledged without an offset and not there": (
        _acknowledged([OFFSET_UNKNOWN]),
        [],
        Anomaly.LOST,
    ),
    "a record is there twice": (
        _acknowledged([0]),
        [Logged(0, 0, 0), Logged(0, 1, 0)],
        Anomaly.DUPLICATE,
    ),
    "a record is at another offset": (
        _acknowledged([0, 1]),
        [Logged(0, 0, 0), Logged(0, 7, 1)],
        Anomaly.MISPLACED,
    ),
    "two records are acknowledged at one offset": (
        _acknowledged([0, 0]),
        [Logged(0, 0, 0)],
        Anomaly.SHARED,
    ),
    "a record is said not to be persisted and is there": (
        [*_sends(1), Settle(9, 0, -1, NOT_PERSISTED)],
        [Logged(0, 0, 0)],
        Anomaly.UNTRUE,
    ),
    "a record is there that nobody sent": (
        _acknowledged([0]),
        [Logged(0, 0, 0), Logged(0, 1, 55)],
        Anomaly.PHANTOM,
    ),
    "two records of a caller have changed places": (
        _acknowledged([1, 0]),
        [Logged(0, 0, 1), Logged(0, 1, 0)],
        Anomaly.UNORDERED,
    ),
    "a record is before another's that was acknowledged before its send": (
        [Invoke(0, 0, 0), Settle(5, 0, 0, 1), Invoke(9, 1, 1), Settle(20, 1, 0, 0)],
        [Logged(0, 0, 1), Logged(0, 1, 0)],
        Anomaly.STALE,
    ),
    "a record is never settled": (_sends(1), [Logged(0, 0, 0)], Anomaly.UNSETTLED),
    "a record ends twice": (
        [*_acknowledged([0]), Settle(300, 0, -1, POSSIBLY_PERSISTED)],
        [Logged(0, 0, 0)],
        Anomaly.SETTLED_TWICE,
    ),
    "offsets of a log go back": (
        [*_acknowledged([5, OFFSET_UNKNOWN])],
        [Logged(0, 5, 0), Logged(0, 4, 1)],
        Anomaly.OFFSETS,
    ),
}
"""Each history is wrong in one way, which it must be told by."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_found(name: str) -> None:
    """One anomaly, by its name, and no other."""
    events, logged, anomaly = WRONG[name]
    findings = list(check_history(results_of(events), logged))
    also = {Anomaly.LOST} if anomaly is Anomaly.SHARED else set()  # one of the two cannot be there
    assert {finding.anomaly for finding in findings} == {anomaly} | also
    assert all(finding.text for finding in findings)


SOUND: dict[str, tuple[Events, Sequence[Logged]]] = {
    "all are there": (_acknowledged([0, 1]), [Logged(0, 0, 0), Logged(0, 1, 1)]),
    "one was acknowledged as a duplicate": (_acknowledged([OFFSET_UNKNOWN]), [Logged(0, 3, 0)]),
    "a failed one is there, as it may": (
        [*_sends(1), Settle(9, 0, -1, POSSIBLY_PERSISTED)],
        [Logged(0, 0, 0)],
    ),
    "a failed one is not there, as it may": (
        [*_sends(1), Settle(9, 0, -1, POSSIBLY_PERSISTED)],
        [],
    ),
    "a rejected one is not there": ([*_sends(1), Settle(9, 0, -1, NOT_PERSISTED)], []),
    "two callers send at once": (
        [Invoke(0, 0, 0), Invoke(1, 1, 1), Settle(5, 0, 0, 1), Settle(6, 1, 0, 0)],
        [Logged(0, 0, 1), Logged(0, 1, 0)],
    ),
    "a log has holes": (_acknowledged([0, 9]), [Logged(0, 0, 0), Logged(0, 9, 1)]),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_passes(name: str) -> None:
    """Nothing is found."""
    events, logged = SOUND[name]
    assert list(check_history(results_of(events), logged)) == []


def test_settings_that_promise_less_are_held_to_less() -> None:
    """Without idempotence a record may be there twice; without order it may overtake."""
    twice = [Logged(0, 0, 0), Logged(0, 1, 0)]
    weak = Promises(is_idempotent=False, keeps_order=False)
    assert list(check_history(results_of(_acknowledged([0])), twice, weak)) == []
    swapped = [Logged(0, 0, 1), Logged(0, 1, 0)]
    assert list(check_history(results_of(_acknowledged([1, 0])), swapped, weak)) == []
