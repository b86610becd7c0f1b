"""One partition's way from nothing known to the end."""

from kprod.network.reading_position import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ReadingPosition,
)


def test_first_the_beginning_then_the_end_then_records() -> None:
    """Each response leads to the next question."""
    position = ReadingPosition(0)
    assert position.wanted_timestamp == EARLIEST_TIMESTAMP
    position.take_offset(5)
    assert position.wanted_timestamp == LATEST_TIMESTAMP
    position.take_offset(7)
    assert position.wanted_timestamp is None
    assert (position.next_offset, position.is_finished) == (5, False)

    position.advance(7)

    assert position.is_finished


def test_an_empty_log_is_finished_at_once() -> None:
    """Its beginning is its end."""
    position = ReadingPosition(0)
    position.take_offset(9)
    position.take_offset(9)

    assert position.is_finished


def test_reading_never_goes_back() -> None:
    """Neither an old batch nor a new beginning below makes anything be read twice."""
    position = ReadingPosition(0)
    position.take_offset(0)
    position.take_offset(100)
    position.advance(50)
    position.advance(20)
    position.begin_again()
    position.take_offset(10)
    position.take_offset(100)

    assert position.next_offset == 50
    assert not position.is_finished
