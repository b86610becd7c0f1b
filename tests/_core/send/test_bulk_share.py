"""A bulk send's share of a batch: places of records, kept small, through splits."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.bulk_account import BulkAccount
from kprod._core.send.bulk_share import BatchShare
from kprod.errors import DeliveryTimeout

steps = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2**40), st.booleans()), min_size=1, max_size=60
)


def places_from(rows: list[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """Ascending places in a batch and in a call; some are neighbours."""
    places = []
    index = call_index = 0
    for gap, call_gap, is_neighbour in rows:
        if not is_neighbour:
            index += gap
            call_index += call_gap
        places.append((index, call_index))
        index += 1
        call_index += 1
    return places


@given(steps)
def test_places_are_kept_as_they_were_noted(rows: list[tuple[int, int, bool]]) -> None:
    """Whatever the gaps between them."""
    places = places_from(rows)
    share = BatchShare(BulkAccount(), BatchResult("t", 0))
    for index, call_index in places:
        share.note(index, call_index)
    assert list(share.places()) == places
    assert share.record_count == len(places)
    assert share.first_index() == places[0][0]


@given(steps, st.lists(st.integers(1, 60), unique=True, max_size=4))
def test_a_splits_parts_have_each_record_once(
    rows: list[tuple[int, int, bool]], borders: list[int]
) -> None:
    """Each at its place in its part; one failing part names its own records."""
    places = places_from(rows)
    account = BulkAccount()
    result = BatchResult("t", 0)
    share = BatchShare(account, result)
    share.watch()
    for index, call_index in places:
        share.note(index, call_index)
    account.seal()
    firsts = [0, *sorted(borders)]
    parts = [BatchResult("t", 0) for _ in firsts]
    result.forward(list(zip(firsts, parts, strict=True)))
    parts[-1].complete(error=DeliveryTimeout("too late"))
    for part in parts[:-1]:
        part.complete(1000)
    assert account.done
    lost = [call_index for index, call_index in places if index >= firsts[-1]]
    assert [place for place, _ in account.failures()] == lost
    assert account.failed_count == len(lost)
    assert sum(count for count, _ in account.delivered().values()) == len(places) - len(lost)


def test_neighbours_and_settled_batches_cost_nothing() -> None:
    """A million neighbours are one span; scattered records are given up with their success."""
    account = BulkAccount()
    blocks = sys.getallocatedblocks()
    for _ in range(50):
        result = BatchResult("t", 0)
        share = BatchShare(account, result)
        share.watch()
        for index in range(2000):
            share.note(index, 3 * index)
        result.complete(0)
    assert sys.getallocatedblocks() - blocks < 1000
