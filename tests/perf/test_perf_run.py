"""The records that a run requests, and the figures that it counts."""

import threading

import pytest

from kprod.clock import ManualClock
from kprod.perf.pace import FullSpeed
from kprod.perf.payloads import Payloads
from kprod.perf.perf_run import ERRORS_KEPT_MAX, OTHER_ERRORS, Block, Goal, Outstanding, PerfRun


def _run(goal: Goal, clock: ManualClock | None = None) -> PerfRun:
    clock = clock or ManualClock()
    run = PerfRun(clock, FullSpeed(clock), Payloads([b"ab", b"abc"]), goal)
    run.begin()
    return run


def test_blocks_are_as_many_records_as_asked_for() -> None:
    """Blocks end at the goal, and bytes are those of the values."""
    run = _run(Goal(record_count=10_001))
    blocks = [(block.first, len(block.values)) for block in run.blocks()]
    assert blocks == [(0, 10_000), (10_000, 1)]
    assert (run.figures.sent_count, run.figures.sent_bytes) == (10_001, 5_000 * 5 + 2)


def test_a_run_may_last_and_carry_at_least_so_much() -> None:
    """Both are asked for: neither alone ends it."""
    clock = ManualClock()
    run = _run(Goal(seconds=1.0, bytes_min=60_000), clock)
    blocks = run.blocks()
    next(blocks)
    clock.advance(2_000)
    assert next(blocks).first == 10_000
    next(blocks, None)
    assert list(blocks) == []


def test_every_so_many_records_are_timed() -> None:
    """Places are counted over all blocks, also where these are not a multiple."""
    run = _run(Goal(record_count=10_010, sample_every=3))
    first, last = run.blocks()
    assert first.timed == range(0, 10_000, 3)
    assert list(last.timed) == [2, 5, 8]
    assert (10_000 + 2) % 3 == 0


def test_a_warm_up_has_blocks_and_latencies_of_its_own() -> None:
    """No block has records on both sides; steady time starts behind it."""
    clock = ManualClock()
    run = _run(Goal(record_count=30, warmup_count=10, sample_every=1), clock)
    sizes = []
    for block in run.blocks():
        sizes.append(len(block.values))
        told = [run.timed(block.first + place) for place in block.timed]
        clock.advance(5)
        for note, due_ns in told:
            note(due_ns)
    run.end()
    warm, steady, every = run.take()
    assert sizes == [10, 20]
    assert (warm.count, steady.count, len(every)) == (10, 20, 30)
    assert (run.figures.elapsed_ns, run.figures.steady_elapsed_ns) == (10_000_000, 5_000_000)
    assert run.take()[0].count == 0


def test_a_rejected_block_counts_what_was_taken() -> None:
    """The record that was rejected failed; those behind it were never sent, and the run ends."""
    run = _run(Goal(record_count=100))
    blocks = run.blocks()
    run.reject(ValueError("no"), next(blocks), 40)
    assert list(blocks) == []
    assert (run.figures.sent_count, run.figures.failed_count) == (41, 1)
    assert run.figures.sent_bytes == 20 * 5 + 2
    assert dict(run.figures.errors) == {"ValueError: no": 1}


def test_kinds_of_errors_are_bounded() -> None:
    """A text with a number in it does not fill the memory."""
    run = _run(Goal(record_count=1))
    run.check(f"error {number}" for number in range(1_000))
    assert len(run.figures.errors) == ERRORS_KEPT_MAX + 1
    assert run.figures.errors[OTHER_ERRORS] == 1_000 - ERRORS_KEPT_MAX
    assert run.figures.failed_count == 1_000


def test_a_stop_wakes_who_sleeps() -> None:
    """A sleep ends, and no block follows."""
    run = _run(Goal(record_count=100))
    sleeper = threading.Thread(target=run.sleep, args=(60.0,))
    sleeper.start()
    run.stop()
    sleeper.join()
    assert (list(run.blocks()), run.is_stopped) == ([], True)


@pytest.mark.parametrize("is_done", [None, lambda future: future < 200_000])
def test_futures_are_kept_and_settled_in_order(is_done: object) -> None:
    """The last 100,000 are kept; one that is not settled yet is kept longer."""
    settled: list[int] = []
    outstanding = Outstanding(settled.extend, is_done)  # type: ignore[arg-type]
    for first in range(0, 300_000, 50_000):
        outstanding.keep(list(range(first, first + 50_000)))
    assert settled == list(range(200_000))
    outstanding.keep(list(range(300_000, 350_000)))
    assert len(settled) == (250_000 if is_done is None else 200_000)
    outstanding.settle_all()
    assert settled == list(range(350_000))


def test_a_block_to_wait_has_no_records() -> None:
    """Nothing is due: how long, and nothing to send."""
    assert Block(3, (), range(0), 0.5).values == ()
