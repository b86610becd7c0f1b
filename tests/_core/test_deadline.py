"""A caller's timeout from the call to its end: bounds, the time left, no end at all."""

import math

import pytest

from kprod.clock import Deadline, ManualClock, wait_by

DECADES_S = 1e9


def test_the_time_left_follows_the_clock() -> None:
    """The seconds left shrink with time, and end at 0."""
    clock = ManualClock()
    deadline = Deadline(2.5, clock)

    assert (deadline.wait_s(), deadline.left_s(), deadline.is_over()) == (2.5, 2.5, False)
    clock.advance(2_000)
    assert (deadline.wait_s(), deadline.left_s(), deadline.is_over()) == (0.5, 0.5, False)
    clock.advance(500)
    assert (deadline.wait_s(), deadline.left_s(), deadline.is_over()) == (0.0, 0.0, True)
    clock.advance(1)
    assert (deadline.wait_s(), deadline.left_s(), deadline.is_over()) == (0.0, 0.0, True)


def test_without_a_timeout_it_never_ends() -> None:
    """A lock is then told −1, a queue None."""
    clock = ManualClock()
    deadline = Deadline(None, clock)

    clock.advance(2**40)

    assert (deadline.wait_s(), deadline.left_s(), deadline.is_over()) == (-1.0, None, False)


@pytest.mark.parametrize(
    ("timeout", "left_s"),
    [
        (0, 0.0),
        (-1, 0.0),
        (-math.inf, 0.0),
        (math.inf, DECADES_S),
        (10**400, DECADES_S),
        (-(10**400), 0.0),
        (DECADES_S * 2, DECADES_S),
    ],
)
def test_a_timeout_is_bounded(timeout: float, left_s: float) -> None:
    """A timeout below 0 is over at once; one beyond 30 years counts as 30."""
    deadline = Deadline(timeout, ManualClock())

    assert deadline.wait_s() == left_s
    assert deadline.is_over() == (left_s == 0)


def test_the_machines_clock_is_the_default() -> None:
    """Without a clock the deadline is in the machine's monotonic time."""
    assert 59 < Deadline(60).wait_s() <= 60
    assert Deadline(0).is_over()


def test_waits_can_have_another_clock() -> None:
    """It is that of deadlines that are made meanwhile and have none of their own."""
    waits, own = ManualClock(), ManualClock()
    before = Deadline(60)
    wait_by(waits)
    try:
        during, given = Deadline(60), Deadline(60, own)
    finally:
        wait_by(None)
    after = Deadline(60)

    waits.advance(60_000)

    assert [deadline.is_over() for deadline in (before, during, given, after)] == [
        False,
        True,
        False,
        False,
    ]


def test_nan_is_no_timeout() -> None:
    """Nobody could say when it is over."""
    with pytest.raises(ValueError, match="nan"):
        Deadline(math.nan)


def test_a_text_is_no_timeout() -> None:
    """Seconds are a number."""
    with pytest.raises(TypeError):
        Deadline("5")  # type: ignore[arg-type]
