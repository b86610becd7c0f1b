"""A clock that a test moves: two instants, in milliseconds and below."""

import pytest

from kprod.clock import ManualClock

MS_NS = 1_000_000


def test_it_moves_by_nanoseconds() -> None:
    """The monotonic clock shows each of them, both clocks each whole millisecond."""
    clock = ManualClock(now_ms=5, timestamp_ms=1_000)

    clock.advance_ns(MS_NS - 1)
    assert (clock.now_ns(), clock.now_ms(), clock.timestamp_ms()) == (6 * MS_NS - 1, 5, 1_000)
    clock.advance_ns(1)
    assert (clock.now_ns(), clock.now_ms(), clock.timestamp_ms()) == (6 * MS_NS, 6, 1_001)
    clock.advance_ns(3 * MS_NS + 7)
    assert (clock.now_ns(), clock.now_ms(), clock.timestamp_ms()) == (9 * MS_NS + 7, 9, 1_004)


def test_milliseconds_and_nanoseconds_add_up() -> None:
    """Fractions of a millisecond are not lost when whole ones pass in between."""
    clock = ManualClock(now_ms=0, timestamp_ms=0)

    clock.advance_ns(MS_NS // 2)
    clock.advance(10)
    clock.advance_ns(MS_NS // 2)

    assert (clock.now_ms(), clock.timestamp_ms()) == (11, 11)


def test_a_wall_clock_that_was_set_begins_a_whole_millisecond() -> None:
    """The instant that was set is shown for a millisecond from then on."""
    clock = ManualClock()
    clock.advance_ns(MS_NS - 1)

    clock.set_wall(77)
    clock.advance_ns(MS_NS - 1)
    assert clock.timestamp_ms() == 77
    clock.advance_ns(1)
    assert clock.timestamp_ms() == 78


@pytest.mark.parametrize("step", [ManualClock.advance, ManualClock.advance_ns])
def test_time_never_goes_back(step: object) -> None:
    """A negative step is rejected, and moves nothing."""
    clock = ManualClock(now_ms=5)

    with pytest.raises(ValueError, match="never goes back"):
        step(clock, -1)  # type: ignore[operator]
    assert clock.now_ms() == 5
