"""A trace function for new threads that ends with each thread.

CPython 3.12 and 3.13 count the threads that have a trace function, and do not count one down that
dies with it. The functions that every other thread runs then stay prepared for tracing until the
process ends. That costs time, and memory at places which need none otherwise: a test that lets an
allocation fail then fails at a place of its own.

Source: CPython 3.12, Python/legacy_tracing.c, `sys_tracing_threads`.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeAlias

TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]
_STARTER = "_bootstrap_inner"  # the function of `threading` that sets the trace, and calls `run`


def trace_new_threads(trace: TraceFunction) -> Callable[[], None]:
    """Trace the threads that are started from now on, each until its `run` returns.

    Args:
        trace: As for `threading.settrace`.

    Returns:
        A function that leaves further threads untraced.
    """

    def begin(frame: FrameType, event: str, argument: object) -> Any:
        caller = frame.f_back
        if caller is not None and caller.f_code.co_name == _STARTER:
            return end
        return trace(frame, event, argument)

    def end(_frame: FrameType, event: str, _argument: object) -> Any:
        if event == "return":
            sys.settrace(None)
        return end

    before = threading.gettrace()
    threading.settrace(begin)
    return lambda: threading.settrace(before)
