"""Waits of asyncio tasks for a producer: for batches, and for metadata.

Thread-safety: the event loop's.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from kprod._core.aio.loop_mailbox import LoopSignal
from kprod._core.outcome.batch_result import BatchResult
from kprod.aio.task_waits import settled_within
from kprod.cluster.metadata import Metadata
from kprod.errors import MetadataTimeout
from kprod.producer.topic_opener import Newer, TopicSteps

T = TypeVar("T")


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
