"""The sender dies at lines of its code, in an interpreter that runs that code as plain Python.

    python -m tests.producer.deaths STEPS

What is compiled shows a tracer no lines. One thread plays all parts: the loop of the sender's
thread runs here, over brokers in memory that answer at once, and a trace function raises where it
is to die.
"""

import importlib.util
import logging
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType

import pytest


class SourceFirst:
    """Finds the Python source of a module even where there is a compiled one."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _: object = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        for directory in path or () if name.startswith("kprod.") else ():
            source = Path(directory) / f"{name.rpartition('.')[2]}.py"
            if source.exists():
                return importlib.util.spec_from_file_location(name, source)
        return None


sys.meta_path.insert(0, SourceFirst)

import kprod  # noqa: E402 - from its sources
from kprod.errors import KprodError  # noqa: E402 - as above
from kprod.producer import sender  # noqa: E402 - as above
from tests.producer.stage import Stage  # noqa: E402 - as above

ROOT = Path(kprod.__file__).parent
UNTRACED = {"sender_thread.py", "ending.py", "lifetime.py"}  # what must survive the death
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


def _line_count() -> int:
    _run(0)  # what is done once in a process, such as compiling messages, is done
    lines, _, futures = _run(0)
    assert all(future.exception(0) is None for future in futures)
    return lines


def main(step_count: int) -> None:
    """Die at so many lines, spread over the whole run; at each, if there are not as many."""
    logging.disable(logging.CRITICAL)
    assert sender.__file__.endswith(".py")
    count = _line_count()
    step_count = min(step_count, count - 1)
    for step in range(step_count):
        _check_death(1 + step * (count - 1) // step_count)


if __name__ == "__main__":
    main(int(sys.argv[1]))
