"""An exception from a signal handler at each place in turn where Python may run one.

CPython runs signal handlers when a function of Python starts or continues, when a loop jumps back,
and when a call of compiled code has returned. Here an exception comes at the n-th such place in
kprod's code, so that a test visits them all; a timer would have to be lucky.

Thread-safety: one thread, whose trace function is replaced meanwhile.
Source: CPython 3.11 to 3.13, Python/ceval.c and Python/bytecodes.c, CHECK_EVAL_BREAKER.
"""

import dis
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import kprod

_CODE = str(Path(kprod.__file__).parent)
_CHECKS = frozenset({"RESUME", "JUMP_BACKWARD", "CALL", "CALL_KW", "CALL_FUNCTION_EX"})


class Interrupted(BaseException):
    """An exception of a signal handler, such as KeyboardInterrupt."""


@cache
def _names(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}


class _Places:
    """Counts the places of a call, and raises at one of them."""

    def __init__(self) -> None:
        self._left = 0
        self._last: dict[FrameType, str] = {}
        self.where: str | None = None

    def visit(self, call: Callable[[], object], number: int) -> None:
        """Make a call, and raise `Interrupted` at a place of it; at none if that is 0."""
        self.where = None
        self._left = number
        try:
            call()
        except Interrupted:
            sys.settrace(self.trace)  # an exception has ended it
        self._left = 0

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Note a call, and follow those of kprod's functions by opcodes."""
        if frame.f_back is not None and frame.f_back in self._last:
            self._last[frame.f_back] = ""  # a call of a Python function is no such place at its end
        if event != "call" or not frame.f_code.co_filename.startswith(_CODE):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._last[frame] = "RESUME"
        return self._step

    def _step(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode" and self._left:
            before = self._last.get(frame, "")
            now = self._last[frame] = _names(frame.f_code).get(frame.f_lasti, "")
            if before in _CHECKS or (before == "PRECALL" and now != "CALL"):
                self._left -= 1  # on 3.11 a specialized PRECALL does the work of both
                if not self._left:
                    self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                    self._last.clear()
                    raise Interrupted
        return self._step


def interrupted_everywhere(call: Callable[[], object], times: int = 1) -> Iterator[str]:
    """Make a call again and again, with an interruption one place further each time.

    Args:
        call: Runs in this thread, once more before the first interruption; may not catch
            `Interrupted`.
        times: How many calls in a row are interrupted at a place.

    Yields:
        The place in words, after each call that was interrupted; ends with the first that was not.
    """
    places = _Places()
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # 3.12 looks when the trace function is set
    # It stays set: since 3.12 a function's opcodes are followed from its second traced call on.
    sys.settrace(places.trace)
    try:
        places.visit(call, 0)
        for number in count(1):
            places.visit(call, number)
            if places.where is None:
                return
            for _ in range(times - 1):
                places.visit(call, number)
            yield places.where or ""
    finally:
        sys.settrace(before)
