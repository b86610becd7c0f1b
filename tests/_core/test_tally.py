"""A bulk send's account: places of records, kept small, through splits and failures."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from kprod._core.batch_result import BatchResult
from kprod._core.tally import BatchShare, SendTally
from kprod.errors import DeliveryTimeout, KprodError

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
    share = BatchShare(SendTally(), BatchResult("t", 0))
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
    tally = SendTally()
    result = BatchResult("t", 0)
    share = BatchShare(tally, result)
    share.watch()
    for index, call_index in places:
        share.note(index, call_index)
    tally.seal()
    firsts = [0, *sorted(borders)]
    parts = [BatchResult("t", 0) for _ in firsts]
    result.forward(list(zip(firsts, parts, strict=True)))
    parts[-1].complete(error=DeliveryTimeout("too late"))
    for part in parts[:-1]:
        part.complete(1000)
    assert tally.done
    lost = [call_index for index, call_index in places if index >= firsts[-1]]
    assert [place for place, _ in tally.failures()] == lost
    assert tally.failed_count == len(lost)
    assert sum(count for count, _ in tally.delivered().values()) == len(places) - len(lost)


def test_errors_of_single_records_count_alone() -> None:
    """Of a batch whose error is none for the others."""
    tally = SendTally()
    result = BatchResult("t", 3)
    share = BatchShare(tally, result)
    share.watch()
    for index in range(5):
        share.note(index, index)
    tally.seal()
    error = KprodError("bad")
    result.complete(10, record_errors={1: error, 9: error})
    assert tally.failures() == [(1, error)]
    assert tally.first_failure() == (1, error)
    assert tally.delivered()[3][0] == 4
    assert tally.batch_errors() == []


def test_refused_records_come_between() -> None:
    """Failures are in the order of the call, wherever they failed."""
    tally = SendTally()
    result = BatchResult("t", 0)
    share = BatchShare(tally, result)
    share.watch()
    tally.refuse(ValueError("first"))
    share.note(0, 1)
    tally.record_count += 1
    tally.refuse(ValueError("third"))
    tally.seal()
    assert not tally.done
    result.complete(error=DeliveryTimeout("late"))
    assert [(place, type(error).__name__) for place, error in tally.failures()] == [
        (0, "ValueError"),
        (1, "DeliveryTimeout"),
        (2, "ValueError"),
    ]
    assert tally.first_failure()[0] == 0


def test_a_batch_that_took_nothing_is_not_waited_for() -> None:
    """It may never be settled."""
    tally = SendTally()
    BatchShare(tally, BatchResult("t", 0)).watch()
    tally.seal()
    assert tally.done


def test_a_call_after_the_end_is_refused() -> None:
    """Its maker makes it instead."""
    tally = SendTally()
    calls: list[int] = []
    assert tally.add_done_call(lambda: calls.append(1))
    tally.seal()
    assert calls == [1]
    assert not tally.add_done_call(lambda: calls.append(2))
    assert calls == [1]


def test_neighbours_and_settled_batches_cost_nothing() -> None:
    """A million neighbours are one span; scattered records are given up with their success."""
    tally = SendTally()
    blocks = sys.getallocatedblocks()
    for _ in range(50):
        result = BatchResult("t", 0)
        share = BatchShare(tally, result)
        share.watch()
        for index in range(2000):
            share.note(index, 3 * index)
        result.complete(0)
    assert sys.getallocatedblocks() - blocks < 1000
