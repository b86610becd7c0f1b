"""The timer with threads of its own: what runs, where, and how it ends."""

import logging
import threading
from collections.abc import Generator

import pytest

from kprod.clock import SystemClock
from kprod.errors import ClosedError
from kprod.timer import SystemTimer, TimerTask
from tests.timer.system_timer_stress import stress

LIMIT_S = 10.0
"""Ends a test as a failure; nothing waits for it otherwise."""

HOUR_MS = 3_600_000


@pytest.fixture
def timer() -> Generator[SystemTimer]:
    """A timer, shut down afterwards."""
    made = SystemTimer(SystemClock())
    yield made
    made.shutdown()


def test_runs_in_order_and_not_early(timer: SystemTimer) -> None:
    """Tasks run in order of their deadlines, on the executor's thread."""
    clock = SystemClock()
    ran: list[tuple[int, bool]] = []
    threads: set[str] = set()
    last = threading.Event()
    start_ms = clock.now_ms()

    def run(delay_ms: int) -> None:
        ran.append((delay_ms, clock.now_ms() >= start_ms + delay_ms))
        threads.add(threading.current_thread().name)
        if delay_ms == 45:
            last.set()

    for delay_ms in (45, 0, 21, 3):
        timer.schedule(delay_ms, lambda due_ms=delay_ms: run(due_ms))  # type: ignore[misc]
    assert last.wait(LIMIT_S)
    assert ran == [(0, True), (3, True), (21, True), (45, True)]
    assert threads == {"kprod-timer-executor"}
    assert len(timer) == 0


def test_earlier_task_wakes_the_reaper(timer: SystemTimer) -> None:
    """A reaper that sleeps for an hour is woken for a task that is due before."""
    ran = threading.Event()
    timer.schedule(HOUR_MS, list)
    timer.schedule(1, ran.set)
    assert ran.wait(LIMIT_S)
    assert len(timer) == 1


def test_failing_task_is_logged_and_stops_nobody(
    timer: SystemTimer, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither an error nor an exit in a task ends the executor."""
    ran = threading.Event()

    def leave() -> None:
        raise SystemExit

    with caplog.at_level(logging.ERROR, logger="kprod.timer"):
        timer.schedule(0, lambda: 1 // 0)
        timer.schedule(1, leave)
        timer.schedule(2, ran.set)
        assert ran.wait(LIMIT_S)
    assert "ZeroDivisionError" in caplog.text
    assert "SystemExit" in caplog.text


def test_due_task_can_be_cancelled_while_another_runs(timer: SystemTimer) -> None:
    """A task due after a slow one is still pending; cancelled, it never runs."""
    go_on, second_added, last = threading.Event(), threading.Event(), threading.Event()
    fired: list[str] = []

    def slow() -> None:
        second_added.wait(LIMIT_S)
        fired.append("slow")
        go_on.wait(LIMIT_S)

    timer.schedule(0, slow)
    victim = timer.schedule(0, lambda: fired.append("victim"))
    second_added.set()
    timer.schedule(0, last.set)
    assert timer.cancel(victim)
    assert not timer.cancel(victim)
    go_on.set()
    assert last.wait(LIMIT_S)
    assert fired == ["slow"]


def test_task_may_add_itself_again(timer: SystemTimer) -> None:
    """A task of the executor adds and cancels like any other thread."""
    third = threading.Event()
    ran: list[int] = []

    def again() -> None:
        ran.append(len(ran))
        if len(ran) == 3:
            third.set()
        else:
            timer.add(1, task)

    task = TimerTask(again)
    timer.add(1, task)
    assert third.wait(LIMIT_S)
    assert ran == [0, 1, 2]


def test_shutdown_cancels_waiting_operations() -> None:
    """Nothing is pending after it, and both threads are gone."""
    timer = SystemTimer(SystemClock(), name="short-lived")
    tasks = [timer.schedule(HOUR_MS, list) for _ in range(3)]
    assert timer.shutdown() == 3
    assert (len(timer), [task.pending for task in tasks]) == (0, [False] * 3)
    assert not [t for t in threading.enumerate() if t.name.startswith("short-lived")]
    assert timer.shutdown() == 0


def test_use_after_shutdown_is_rejected() -> None:
    """The error says so; a task of another timer stays where it is."""
    timer, other = SystemTimer(SystemClock()), SystemTimer(SystemClock())
    timer.shutdown()
    task = other.schedule(HOUR_MS, list)
    with pytest.raises(ClosedError, match="shut down"):
        timer.add(1, task)
    with pytest.raises(ClosedError, match="shut down"):
        timer.schedule(1, list)
    assert task.pending
    other.shutdown()


def test_shutdown_from_a_task_does_not_wait_for_itself() -> None:
    """A task may shut its own timer down."""
    timer = SystemTimer(SystemClock())
    cancelled: list[int] = []
    done = threading.Event()

    def stop() -> None:
        cancelled.append(timer.shutdown())
        done.set()

    timer.schedule(HOUR_MS, list)
    timer.schedule(0, stop)
    assert done.wait(LIMIT_S)
    assert cancelled == [1]


@pytest.mark.parametrize("delay_ms", [2**63, 2**63 - 1, 10**30])
def test_delay_beyond_int64_is_rejected(timer: SystemTimer, delay_ms: int) -> None:
    """Clear errors, and the timer continues."""
    ran = threading.Event()
    with pytest.raises(ValueError, match="beyond the timer's range"):
        timer.schedule(delay_ms, list)
    timer.schedule(2**62, list)
    timer.schedule(-5, ran.set)
    assert ran.wait(LIMIT_S)


@pytest.mark.slow
def test_eight_threads_lose_nothing() -> None:
    """Under a switch interval of a microsecond each task runs as often as it should, none early."""
    assert stress(3.0) == []
