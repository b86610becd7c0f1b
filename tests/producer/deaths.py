"""The sender dies at lines of its code, in an interpreter that runs that code as plain Python.

    python -m tests.producer.deaths STEPS [MemoryError]

Compiled code shows a tracer no lines. One thread plays all parts: the loop of the sender's
thread runs here, over brokers in memory that respond at once, and a trace function raises where it
is to die; or a MemoryError where memory is to be short, which it may outlive.
"""

import importlib.util
import itertools
import linecache
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
from tests.producer.stage import TURNS_MAX, Stage  # noqa: E402 - as above

ROOT = Path(kprod.__file__).parent
UNTRACED = {
    "loop_thread.py",
    "closing.py",
    "open_clients.py",
    "guarded_log.py",
}  # what must survive the death
RECORDS = 6


class Planted(BaseException):
    """Not even an `Exception`: nothing but the thread's last resort catches it."""


def _may_allocate(frame: FrameType) -> bool:
    """Whether a line could be short of memory, compiled as it is: some only set C fields."""
    path = frame.f_code.co_filename
    if path.endswith(("/partition_queue.py", "/batch.py")):
        return False
    return linecache.getline(path, frame.f_lineno).strip() != "try:"


class _Tracer:
    """Counts lines of the sender's code, and raises at one of them."""

    def __init__(self, fatal: int, fault: type[BaseException]) -> None:
        self.fatal = fatal
        self.fault = fault
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> "_Tracer | None":
        path = Path(frame.f_code.co_filename)
        if event == "call":
            return self if ROOT in path.parents and path.name not in UNTRACED else None
        if event == "line" and (self.fault is Planted or _may_allocate(frame)):
            self.lines += 1
            if self.lines == self.fatal:
                raise self.fault
        return self


def _run(
    fatal: int, fault: type[BaseException] = Planted
) -> tuple[int, Stage, list[kprod.RecordFuture]]:
    """Send some records, and let the sender run until they are settled or it is dead.

    Returns:
        How many lines it ran before it was told to stop, or died.
    """
    stage = Stage({"orders": [1, 2]})
    producer = stage.producer
    serve = stage.selector.serve

    turns = itertools.count()

    def respond_to_all() -> None:
        serve()
        while stage.held:
            stage.take().answer()
        if all(future.done() for future in futures) or next(turns) > TURNS_MAX:
            sys.settrace(None)
            if fault is MemoryError and len(futures) == RECORDS:
                futures.append(producer.send("orders", b"after", partition=0))
                producer._kprod.flush_soon()
            else:
                producer._kprod.thread.stop_soon()

    futures: list[kprod.RecordFuture] = [
        producer.send("orders", b"x" * 3_000, partition=number % 2) for number in range(RECORDS)
    ]
    stage.selector.serve = respond_to_all
    stage.selector.horizon_ms = stage.clock.now_ms() + 10_000
    tracer = _Tracer(fatal, fault)
    thread = producer._kprod.thread  # found before lines are counted: only its own may be fatal
    previous = sys.gettrace()
    sys.settrace(tracer)
    try:
        thread.run()
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
    assert stage.producer._kprod.thread.has_ended
    assert stage.selector.is_closed
    Stage.opened.remove(stage)  # what a request held when it was not yet made is lost with the pool


def _check_shortage(fatal: int) -> None:
    lines, stage, futures = _run(fatal, MemoryError)
    told: list[kprod.RecordFuture] = []
    for future in futures:
        future.add_done_callback(told.append)
    assert told == futures
    errors = [str(error) for future in futures if (error := future.exception(0)) is not None]
    if len(futures) == RECORDS or any("died of MemoryError" in error for error in errors):
        with pytest.raises(KprodError, match="died of MemoryError"):
            stage.producer.send("orders", b"late")
    else:
        assert len(futures) == RECORDS + 1  # it went on, and delivered another
        assert futures[-1].exception(0) is None
        assert all("MemoryError" in error for error in errors)
    if lines < fatal:
        assert not errors
    assert stage.producer.close(0) == 0
    assert stage.producer._kprod.thread.has_ended
    Stage.opened.remove(stage)


def _line_count(fault: type[BaseException]) -> int:
    _run(0, fault)  # work done once in a process, such as compiling messages, is done
    lines, _, futures = _run(0, fault)
    assert all(future.exception(0) is None for future in futures)
    return lines


def main(step_count: int, fault: str = "") -> None:
    """Die at this number of lines, spread over the whole run; at each, if there are fewer."""
    logging.disable(logging.CRITICAL)
    assert sender.__file__.endswith(".py")
    kind = MemoryError if fault == MemoryError.__name__ else Planted
    count = _line_count(kind)
    step_count = min(step_count, count - 1)
    for step in range(step_count):
        fatal = 1 + step * (count - 1) // step_count
        (_check_death if kind is Planted else _check_shortage)(fatal)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
