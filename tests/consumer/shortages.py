"""Completions of a consumer's requests that meet a MemoryError, at one of their allocations.

They run Python code, and CPython 3.12 and 3.13 crash by themselves where that has no memory, for
example to make a function of another's variables. There is nothing to see of kprod then, so the
tests are left out there, after a program without kprod has shown it.
"""

import subprocess
import sys
from collections.abc import Callable

import pytest

_memory = pytest.importorskip("_testcapi", reason="this Python has no allocator that fails")

_WITHOUT_KPROD = """
import _testcapi

class Question:
    def __init__(self, keys, on_found):
        self.keys, self.on_found = keys, on_found

class Questions:
    def __init__(self):
        self.asked = []

    def ask(self, key, start):
        self.asked.append(Question({key: start}, lambda found: self.take(key, start, found)))

    def take(self, *found):
        pass

questions = Questions()
for allocation in range(1, 60):
    try:
        _testcapi.set_nomemory(allocation, allocation + 1)
        try:
            questions.ask("a", 2)
        finally:
            _testcapi.remove_mem_hooks()
    except MemoryError:
        pass
"""
_PROGRAM = [sys.executable, "-c", _WITHOUT_KPROD]

if subprocess.run(_PROGRAM, check=False, capture_output=True, timeout=60).returncode:
    pytest.skip("this Python crashes by itself where memory is short", allow_module_level=True)


class Shortage:
    """A moment without memory in one call of a completion.

    Attributes:
        was_called: Whether there was such a call.
        has_raised: Whether it raised a MemoryError.
    """

    def __init__(self, call_number: int, allocation: int) -> None:
        """Choose the call, and the allocation in it that fails; both count from 1."""
        self._calls_left = call_number
        self._allocation = allocation
        self.was_called = False
        self.has_raised = False

    def run(self, completion: Callable[[], object]) -> None:
        """Call a completion, which may be the one."""
        self._calls_left -= 1
        if self._calls_left:
            completion()
            return
        self.was_called = True
        _memory.set_nomemory(self._allocation, self._allocation + 1)
        try:
            completion()
        except MemoryError:
            _memory.remove_mem_hooks()
            self.has_raised = True
            raise
        finally:
            _memory.remove_mem_hooks()
