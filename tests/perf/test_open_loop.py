"""A broker hangs for 500 ms: the latency of every record due meanwhile includes its wait.

In virtual time, with a client whose `send` waits until the broker moves again: exact figures. The
same check fails for a closed loop, which is what it is for.
"""

import pytest

from kprod.clock import ManualClock
from kprod.perf.latency_tally import LatencyTally
from kprod.perf.pace import FullSpeed, OpenLoop, Pace
from kprod.perf.payloads import Payloads
from kprod.perf.perf_run import Goal, PerfRun

RATE = 1_000
RECORD_COUNT = 10_000
STALL_FROM_MS, STALL_MS = 3_000, 500
SERVICE_MS = 1
NS_PER_MS = 1_000_000


class ClosedLoop(OpenLoop):
    """Sends at the same instants, and counts from the call of `send`: what a tool must not do."""

    def __init__(self, clock: ManualClock, rate: float) -> None:
        super().__init__(clock, rate)
        self._now_ns = clock.now_ns
        self._last_sent_ns = 0

    def due_count(self, sent_count: int) -> int:
        """See `OpenLoop`; one at a time, each an interval after the one before was delivered."""
        return min(super().due_count(sent_count), 1)

    def due_ns(self, number: int) -> int:
        """Return the present, as the record is sent."""
        del number
        return self._now_ns()

    def wait_s(self, sent_count: int) -> float:
        """Return the time until the instant at which the record would be due."""
        return max(OpenLoop.due_ns(self, sent_count) - self._now_ns(), 0) / 1e9


def _latencies_ms(clock: ManualClock, pace: Pace) -> list[float]:
    """Latencies of all records through a client that sends one at a time."""
    goal = Goal(record_count=RECORD_COUNT, sample_every=1)
    run = PerfRun(clock, pace, Payloads([b"value"]), goal)
    run.begin()
    began_ms = clock.now_ms()
    for block in run.blocks():
        clock.advance_ns(int(block.wait_s * 1e9))
        for place in range(len(block.values)):
            note, due_ns = run.timed(block.first + place)
            at_ms = clock.now_ms() - began_ms
            if STALL_FROM_MS <= at_ms < STALL_FROM_MS + STALL_MS:
                clock.advance(STALL_FROM_MS + STALL_MS - at_ms)
            note(due_ns)
    run.end()
    return [latency_ns / NS_PER_MS for latency_ns in run.take()[2]]


def _check_every_waiting_record(latencies_ms: list[float]) -> None:
    """As many records waited for a time as were due that long before the end of the stall."""
    assert len(latencies_ms) == RECORD_COUNT
    for wait_ms in (400, 250, 100, 10):
        due_count = (STALL_MS - wait_ms) * RATE // 1_000
        waited = sum(latency_ms >= wait_ms for latency_ms in latencies_ms)
        assert waited == pytest.approx(due_count, abs=2), wait_ms
    tally = LatencyTally()
    tally.record([int(latency_ms * NS_PER_MS) for latency_ms in latencies_ms])
    # The stall is 5 % of the run: its middle is at 97.5 %.
    assert tally.percentile_ms(97.5) == pytest.approx(STALL_MS / 2, rel=0.02)
    assert tally.percentile_ms(99.9) == pytest.approx(STALL_MS - 10, rel=0.02)


def test_every_record_that_was_due_shows_its_waiting() -> None:
    """Latencies count from when a record was due, so 500 of 10,000 records show the stall."""
    clock = ManualClock()
    _check_every_waiting_record(_latencies_ms(clock, OpenLoop(clock, RATE)))


def test_a_closed_loop_would_leave_them_out() -> None:
    """It shows one long latency; the check above finds that."""
    clock = ManualClock()
    latencies_ms = _latencies_ms(clock, ClosedLoop(clock, RATE))
    assert sum(latency_ms > SERVICE_MS for latency_ms in latencies_ms) == 1
    with pytest.raises(AssertionError):
        _check_every_waiting_record(latencies_ms)


def test_records_are_due_evenly() -> None:
    """Record n is due n / rate seconds after the begin, the first at once."""
    clock = ManualClock()
    pace = OpenLoop(clock, 4.0)
    clock.advance(10_000)
    pace.begin()
    began_ns = clock.now_ns()
    assert [pace.due_ns(number) - began_ns for number in range(3)] == [0, 250_000_000, 500_000_000]
    assert (pace.due_count(0), pace.wait_s(1)) == (1, 0.25)
    clock.advance(500)
    assert [pace.due_count(sent) for sent in range(5)] == [3, 2, 1, 0, 0]


def test_what_is_due_is_bounded() -> None:
    """After a long stall records are asked for in blocks, and none is left out."""
    clock = ManualClock()
    pace = OpenLoop(clock, 1e6)
    clock.advance(60_000)
    assert pace.due_count(0) == pace.due_count(1_000_000) == 10_000


def test_full_speed_waits_for_nothing() -> None:
    """A record is due when it is sent."""
    clock = ManualClock()
    pace = FullSpeed(clock)
    pace.begin()
    clock.advance(7)
    assert (pace.due_ns(3), pace.wait_s(3)) == (clock.now_ns(), 0.0)
    assert pace.due_count(3) == 10_000
