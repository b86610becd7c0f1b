"""The ledger finds what it is there to find."""

import pytest

from kprod.errors import KprodError, Persistence
from kprod.model import RecordMetadata
from tests.chaos.ledger import Ledger


def _ledger() -> Ledger:
    """Five records: three acknowledged at 0, 1 and 2, one that may be there, one that is not."""
    ledger = Ledger(1)
    for offset in range(3):
        _, settle = ledger.open(0)
        settle(RecordMetadata("chaos", 0, offset, 0, -1, 1), None)
    for persistence in (Persistence.POSSIBLY_PERSISTED, Persistence.NOT_PERSISTED):
        _, settle = ledger.open(0)
        error = KprodError("failed")
        error.persistence = persistence
        settle(None, error)
    return ledger


@pytest.mark.parametrize("rest", [[], [(3, 3)]])
def test_a_true_account_is_clean(rest: list[tuple[int, int]]) -> None:
    """A record whose outcome is unknown may be in the log, or not."""
    verdict = _ledger().compare([[(0, 0), (1, 1), (2, 2), *rest]])
    assert verdict.is_clean
    assert (verdict.sent, verdict.acknowledged, verdict.possibly_persisted) == (5, 3, 1)
    assert verdict.not_persisted == 1


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ([(0, 0), (1, 1)], "lost"),
        ([(0, 0), (1, 1), (3, 2)], "misplaced"),
        ([(0, 0), (1, 1), (2, 2), (3, 1)], "doubled"),
        ([(0, 0), (1, 2), (2, 1)], "out_of_order"),
        ([(0, 0), (1, 1), (2, 2), (3, 4)], "untrue"),
    ],
)
def test_each_broken_promise_has_a_name(log: list[tuple[int, int]], kind: str) -> None:
    """Lost, misplaced, doubled, out of order, and a failure that said what is not so."""
    verdict = _ledger().compare([log])
    assert not verdict.is_clean
    assert getattr(verdict, kind)


def test_unresolved_and_twice_resolved_records_are_counted() -> None:
    """A callback that never came, and one that came again."""
    ledger = Ledger(1)
    _, settle = ledger.open(0)
    ledger.open(0)
    metadata = RecordMetadata("chaos", 0, 0, 0, -1, 1)
    settle(metadata, None)
    settle(metadata, None)
    verdict = ledger.compare([[(0, 0)]])
    assert (verdict.unresolved, verdict.resolved_twice) == (1, 1)
    assert not verdict.is_clean
