"""Waits of asyncio tasks: for a future with a timeout, and for a separate thread.

Thread-safety: the event loop's.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from kprod._core.aio.loop_mailbox import LoopSignal
from kprod.threads import start_thread

T = TypeVar("T")


async def settled_within(future: asyncio.Future[bool], timeout_s: float) -> bool:
    """Wait for a future without other waiters.

    Args:
        future: Cancelled with the task that waits.
        timeout_s: Longest wait; at most 0 lets the loop turn once.

    Returns:
        Its result; False if the timeout expired.
    """

    def give_up() -> None:
        if not future.done():
            future.set_result(False)

    timer = asyncio.get_running_loop().call_later(max(timeout_s, 0), give_up)
    try:
        return await future
    finally:
        timer.cancel()


class ThreadCall(Generic[T]):
    """A blocking call in a separate thread, whose end any task of the loop may wait for.

    A separate thread, since a thread of the loop's pool would delay other calls and the loop's end.
    The cancellation of a task does not end the call, nor the wait of another task.

    Attributes:
        ended: Done when the call has ended, whatever its outcome.
    """

    __slots__ = ("_errors", "_results", "ended")

    def __init__(self, call: Callable[[], T], name: str) -> None:
        """Start the thread.

        Args:
            call: Any function.
            name: Name of the thread.
        """
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        signal = LoopSignal()
        self.ended: asyncio.Future[bool] = signal.future

        def run() -> None:
            try:
                self._results.append(call())
            except BaseException as error:  # noqa: BLE001 - raised again in a task
                self._errors.append(error)
            finally:
                signal.release()

        start_thread(name, run)

    def result(self) -> T:
        """Return the call's result, once; the call has ended.

        Returns:
            The result; the call's exceptions are passed on.
        """
        if self._errors:
            raise self._errors.pop()
        return self._results.pop()


async def in_own_thread(call: Callable[[], T], name: str) -> T:
    """Run a blocking call in a separate thread, and wait for it.

    After a cancellation the call continues, and its result is ignored.

    Args:
        call: Any function.
        name: Name of the thread.

    Returns:
        The call's result; its exceptions are passed on.
    """
    started = ThreadCall(call, name)
    await started.ended
    return started.result()
