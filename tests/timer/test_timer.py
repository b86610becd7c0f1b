"""The timer its owner drives: what fires, in what order, and what tasks may do meanwhile."""

import logging

import pytest

from kprod.timer import Timer, TimerTask


def test_fires_in_order_of_expiration() -> None:
    """However they were added, and over however many levels, one advance fires them in order."""
    timer = Timer(0)
    fired: list[int] = []
    for delay_ms in (9_000, 3, 350, 0, 21, 120_000, 20, 400):
        timer.schedule(delay_ms, lambda due_ms=delay_ms: fired.append(due_ms))  # type: ignore[misc]
    assert timer.advance(200_000) == 8
    assert fired == [0, 3, 20, 21, 350, 400, 9_000, 120_000]


def test_due_at_once_fires_in_the_next_advance() -> None:
    """Never inside `add`, and without time having to pass."""
    timer = Timer(1_000)
    fired: list[int] = []
    timer.add(0, TimerTask(lambda: fired.append(1)))
    timer.add(-5, TimerTask(lambda: fired.append(2)))
    assert fired == []
    assert timer.next_expiry_ms == 1_000
    assert timer.advance(1_000) == 2
    assert fired == [1, 2]


def test_task_added_while_firing_waits_for_the_next_advance() -> None:
    """A task that adds itself again, due at once, does not keep the loop for itself."""
    timer = Timer(0)
    fired: list[int] = []

    def again() -> None:
        fired.append(timer.now_ms)
        assert not task.pending
        timer.add(0, task)

    task = TimerTask(again)
    timer.add(5, task)
    assert timer.advance(10) == 1
    assert timer.advance(10) == 1
    assert fired == [10, 10]
    assert len(timer) == 1


def test_task_may_cancel_one_that_is_due() -> None:
    """A task due in the same advance that an earlier task cancels does not run."""
    timer = Timer(0)
    fired: list[str] = []
    victim = TimerTask(lambda: fired.append("victim"))
    timer.schedule(3, victim.cancel)
    timer.add(4, victim)
    timer.schedule(5, lambda: fired.append("last"))
    assert timer.advance(100) == 2
    assert fired == ["last"]


def test_task_may_add_and_cancel_itself() -> None:
    """Adding and cancelling inside the task leaves it out of the timer."""
    timer = Timer(0)

    def run() -> None:
        timer.add(1, task)
        assert task.cancel()

    task = TimerTask(run)
    timer.add(1, task)
    assert timer.advance(1) == 1
    assert len(timer) == 0
    assert timer.advance(100) == 0


def test_added_while_firing_counts_from_the_new_time() -> None:
    """During an advance to 1,000 a delay of 10 ms means 1,010."""
    timer = Timer(0)
    added: list[TimerTask] = []
    timer.schedule(5, lambda: added.append(timer.schedule(10, list)))
    timer.advance(1_000)
    assert added[0].expiration_ms == 1_010


def test_failing_task_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The log has its error; the task after it runs."""
    timer = Timer(0)
    fired: list[int] = []
    timer.schedule(1, lambda: 1 // 0)
    timer.schedule(2, lambda: fired.append(2))
    with caplog.at_level(logging.ERROR, logger="kprod.timer"):
        assert timer.advance(5) == 2
    assert fired == [2]
    assert "due at 1 ms" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_failing_task_of_a_vital_timer_is_raised_and_loses_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged, too; the tasks behind it are the first of the next call."""
    timer = Timer(0, is_vital=True)
    fired: list[int] = []
    timer.schedule(1, lambda: fired.append(1))
    timer.schedule(2, lambda: fired.append(1 // 0))
    timer.schedule(3, lambda: fired.append(3))
    with pytest.raises(ZeroDivisionError):
        timer.advance(5)
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert (fired, len(timer)) == ([1], 1)
    assert timer.advance(5) == 1
    assert fired == [1, 3]


def test_interrupted_advance_loses_nothing() -> None:
    """One that is no `Exception` ends the advance; later tasks are the first of the next."""
    timer = Timer(0)
    fired: list[int] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    timer.schedule(1, interrupt)
    timer.schedule(2, lambda: fired.append(2))
    timer.schedule(3, lambda: fired.append(3))
    with pytest.raises(KeyboardInterrupt):
        timer.advance(2)
    assert (len(timer), timer.next_expiry_ms) == (2, 2)
    assert timer.advance(3) == 2
    assert fired == [2, 3]


def test_advance_from_within_a_task_is_rejected() -> None:
    """A task that advances its own timer gets an error; the timer continues."""
    timer = Timer(0)
    rejected: list[str] = []
    fired: list[int] = []

    def advance() -> None:
        try:
            timer.advance(50)
        except RuntimeError as error:
            rejected.append(str(error))

    timer.schedule(1, advance)
    timer.schedule(2, lambda: fired.append(2))
    timer.schedule(30, lambda: fired.append(30))
    assert timer.advance(3) == 2
    assert (len(rejected), timer.now_ms) == (1, 3)
    assert timer.advance(50) == 1
    assert fired == [2, 30]


def test_time_going_back_is_rejected_and_loses_nothing() -> None:
    """The error names both times."""
    timer = Timer(100)
    fired: list[int] = []
    timer.schedule(5, lambda: fired.append(1))
    with pytest.raises(ValueError, match="100 cannot advance to 99"):
        timer.advance(99)
    assert timer.advance(105) == 1
    assert fired == [1]


def test_clear_while_firing_stops_the_rest() -> None:
    """A task that clears the timer is the last one run."""
    timer = Timer(0)
    fired: list[int] = []
    timer.schedule(1, timer.clear)
    timer.schedule(1, lambda: fired.append(1))
    timer.schedule(9_000, lambda: fired.append(2))
    assert timer.advance(10) == 1
    assert (len(timer), timer.next_expiry_ms, fired) == (0, None, [])
