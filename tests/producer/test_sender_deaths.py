"""The sender dies at any line of its code: every record is settled, and nobody waits for ever.

One thread plays all parts: the loop of the sender's thread runs here, over brokers in memory that
answer at once, and a trace function raises where the test wants it.
"""

import sys
from pathlib import Path
from types import FrameType

import pytest

import kprod
from kprod.errors import KprodError
from tests.producer.stage import Stage

ROOT = Path(kprod.__file__).parent
UNTRACED = {"sender_thread.py", "ending.py", "lifetime.py"}  # what must survive the death
SHORT_STEPS = 40
RECORDS = 6


class Planted(BaseException):
    """Not even an `Exception`: nothing but the thread's last resort catches it."""


class _Tracer:
    """Counts lines of the sender's code, and raises at one of them."""

    def __init__(self, fatal: int) -> None:
        self.fatal = fatal
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> "_Tracer | None":
        path = Path(frame.f_code.co_filename)
        if event == "call":
            return self if ROOT in path.parents and path.name not in UNTRACED else None
        if event == "line":
            self.lines += 1
            if self.lines == self.fatal:
                raise Planted
        return self


def _run(fatal: int) -> tuple[int, Stage, list[kprod.RecordFuture]]:
    """Send some records, and let the sender run until they are settled or it is dead.

    Returns:
        How many lines it ran before it was told to stop, or died.
    """
    stage = Stage({"orders": [1, 2]})
    producer = stage.producer
    serve = stage.selector.serve

    def answer_all() -> None:
        serve()
        while stage.held:
            stage.take().answer()
        if all(future.done() for future in futures):
            producer._thread.stop_soon()
            sys.settrace(None)

    futures: list[kprod.RecordFuture] = [
        producer.send("orders", b"x" * 3_000, partition=number % 2) for number in range(RECORDS)
    ]
    stage.selector.serve = answer_all
    stage.selector.horizon_ms = stage.clock.now_ms() + 10_000
    tracer = _Tracer(fatal)
    previous = sys.gettrace()
    sys.settrace(tracer)
    try:
        producer._thread.run()
    finally:
        sys.settrace(previous)
    return tracer.lines, stage, futures


def _check_death(fatal: int) -> None:
    lines, stage, futures = _run(fatal)
    if lines < fatal:  # it came to its end in fewer lines than another run
        assert all(future.exception(0) is None for future in futures)
        return
    told: list[kprod.RecordFuture] = []
    delivered = 0
    for future in futures:
        future.add_done_callback(told.append)
        error = future.exception(0)
        delivered += error is None
        assert error is None or "died of Planted" in str(error)
    assert told == futures
    with pytest.raises(KprodError, match="died of Planted"):
        stage.producer.send("orders", b"late")
    assert stage.producer.close(0) == 0
    assert stage.producer._thread.has_ended
    assert stage.selector.is_closed
    Stage.opened.remove(stage)  # what a request held when it was not yet made is lost with the pool


@pytest.fixture(autouse=True)  # ruff: ignore[pytest-fixture-autouse] - every test here
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(100)


def _line_count() -> int:
    _run(0)  # what is done once in a process, such as compiling messages, is done
    lines, _, futures = _run(0)
    assert all(future.exception(0) is None for future in futures)
    return lines


@pytest.mark.slow
def test_death_at_many_lines() -> None:
    """Spread over the whole run, from the first turn to the last answer."""
    count = _line_count()
    for step in range(SHORT_STEPS):
        _check_death(1 + step * (count - 1) // SHORT_STEPS)


@pytest.mark.long
def test_death_at_every_line() -> None:
    """The same at each."""
    for fatal in range(1, _line_count()):
        _check_death(fatal)
