"""Waits of asyncio tasks: for a future with a timeout, and for a separate thread.

Thread-safety: the event loop's.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

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


async def in_own_thread(call: Callable[[], T], name: str) -> T:
    """Run a blocking call in a separate thread.

    After a cancellation the call continues, and its result is ignored.

    A separate thread, since a thread of the loop's pool would delay other calls and the loop's end.

    Args:
        call: Any function.
        name: Name of the thread.

    Returns:
        The call's result; its exceptions are passed on.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    signal = LoopSignal()
    is_awaited = True

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the task
            if is_awaited:
                errors.append(error)
        finally:
            signal.release()

    start_thread(name, run)
    try:
        await signal.future
    finally:
        is_awaited = False
    if errors:
        raise errors.pop()
    return results.pop()
