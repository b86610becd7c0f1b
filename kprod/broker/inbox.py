"""Runs calls of other threads on the broker's thread, one by one, and passes back their results.

The broker has no locks, because one thread owns all its state. Calls from other threads wait in
this inbox for that thread.

Invariants.
    Every call ends: with its result, its exception, or ClosedError once the inbox is closed. A call
    runs at most once.

Thread-safety: `call` from any thread; `run_waiting` and `close` from the owner.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from kprod.errors import ClosedError

T = TypeVar("T")


class _Call(Generic[T]):
    """A waiting call; `done` is held until it has ended."""

    __slots__ = ("done", "error", "function", "result")

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.done = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.function()
        except Exception as error:  # noqa: BLE001 - it is raised in the caller
            self.error = error
        self.done.set()


class Inbox:
    """A queue of calls for one thread."""

    __slots__ = ("_calls", "_closed", "_lock", "_owner_ident", "_wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        """Create an inbox without an owner: calls run immediately, in the calling thread.

        Args:
            wake: Wakes the owner; called from any thread.
        """
        self._lock = threading.Lock()  # guards: _calls, _closed, _owner_ident
        self._calls: deque[_Call[object]] = deque()
        self._closed = False
        self._owner_ident: int | None = None
        self._wake = wake

    def adopt(self) -> None:
        """Make the calling thread the owner."""
        with self._lock:
            self._owner_ident = threading.get_ident()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the owner's thread and wait for it.

        Args:
            function: A function without arguments that must not block.

        Returns:
            The function's result.

        Raises:
            ClosedError: The inbox is closed; the function did not run.
        """
        waiting: _Call[T] | None = None
        with self._lock:
            if self._closed:
                raise ClosedError("the embedded cluster is closed")
            if self._owner_ident not in {None, threading.get_ident()}:
                waiting = _Call(function)
                self._calls.append(waiting)  # type: ignore[arg-type]  # results are not looked at
        if waiting is None:
            return function()
        self._wake()
        waiting.done.wait()
        if waiting.error is not None:
            raise waiting.error
        return waiting.result  # type: ignore[return-value]  # None only where T allows it

    def run_waiting(self) -> None:
        """Run all waiting calls."""
        while self._calls:
            self._calls.popleft().run()

    def close(self) -> None:
        """Reject new calls, end the waiting ones with ClosedError, and remove the owner."""
        with self._lock:
            self._closed = True
            left, self._calls = self._calls, deque()
        for waiting in left:
            waiting.error = ClosedError("the embedded cluster was closed during the call")
            waiting.done.set()
