"""Waits of asyncio tasks: for a future with a timeout, for a separate thread, for metadata.

Thread-safety: the event loop's.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from kprod._core.aio.loop_mailbox import LoopSignal
from kprod._core.outcome.batch_result import BatchResult
from kprod.cluster.metadata import Metadata
from kprod.errors import MetadataTimeout
from kprod.producer.topic_opener import Newer, TopicSteps
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


async def until_finished(results: Iterable[BatchResult]) -> None:
    """Wait until batches, or all parts of each, are done and their callbacks have run.

    Args:
        results: Any number of batch results.
    """
    for result in results:
        while (part := result.unfinished_part()) is not None:
            await _until_changed(part)


async def _until_changed(result: BatchResult) -> None:
    signal = LoopSignal()
    if not result.add_waiter(signal):
        return
    try:
        await signal.future
    finally:
        result.remove_waiter(signal)


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


async def wait_through(steps: TopicSteps[T], metadata: Metadata) -> T:
    """Run steps that wait for newer metadata.

    Args:
        steps: Steps of a `TopicOpener`.
        metadata: Metadata of the same producer.

    Returns:
        The steps' result; their exceptions are passed on.
    """
    step: Callable[[], Newer] = partial(next, steps)
    while True:
        try:
            wanted = step()
        except StopIteration as end:
            found: T = end.value
            return found
        if await _is_newer_within(metadata, wanted.version, wanted.timeout_ms):
            step = partial(next, steps)
        else:
            step = partial(steps.throw, MetadataTimeout(metadata.trouble()))


async def _is_newer_within(metadata: Metadata, version: int, timeout_ms: int) -> bool:
    signal = LoopSignal()
    try:
        if metadata.add_waiter(signal, version):
            await settled_within(signal.future, timeout_ms / 1000)
        return metadata.is_newer_than(version)
    finally:
        metadata.remove_waiter(signal)
