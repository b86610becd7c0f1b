"""Completions of a consumer's requests that meet a MemoryError, at one of their allocations."""

from collections.abc import Callable

import pytest

_memory = pytest.importorskip("_testcapi", reason="this Python has no allocator that fails")


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
