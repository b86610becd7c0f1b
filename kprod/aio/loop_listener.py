"""Calls an application's rebalance listener in its event loop.

The steps of a rebalance run in a thread of their own, since they wait for commits. The listener's
methods, plain ones or coroutines, run in the loop, as all other code of the application; the step
waits for them meanwhile.

Thread-safety: the thread of the step, while the loop runs.
"""

import asyncio
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from kprod._core.outcome.batch_result import BatchResult
from kprod.errors import KprodError
from kprod.model import TopicPartition

_LOOK_S = 0.2  # between two looks whether the loop still runs


class LoopListener:
    """A listener for the synchronous engine.

    Attributes:
        loop: The loop that reads; None before the first read.
    """

    __slots__ = ("_face", "_listener", "loop")

    def __init__(self, face: object, listener: object) -> None:
        """Wrap a listener.

        Args:
            face: The public consumer, which the listener is given.
            listener: The application's; each method is optional, and may be a coroutine function.
        """
        self._face = weakref.ref(face)
        self._listener = listener
        self.loop: asyncio.AbstractEventLoop | None = None

    def on_assigned(self, _consumer: object, partitions: Sequence[TopicPartition]) -> None:
        """Tell of new partitions."""
        self._tell(getattr(self._listener, "on_assigned", None), partitions)

    def on_revoked(self, _consumer: object, partitions: Sequence[TopicPartition]) -> None:
        """Tell of partitions that are given up."""
        self._tell(getattr(self._listener, "on_revoked", None), partitions)

    def on_lost(self, _consumer: object, partitions: Sequence[TopicPartition]) -> None:
        """Tell of partitions that are lost."""
        call = getattr(self._listener, "on_lost", None)
        self._tell(call or getattr(self._listener, "on_revoked", None), partitions)

    def _tell(
        self,
        call: Callable[[Any, list[TopicPartition]], Any] | None,
        keys: Sequence[TopicPartition],
    ) -> None:
        loop = self.loop
        if call is None:
            return
        if loop is None or not loop.is_running():
            raise KprodError(
                f"the event loop does not run any more: {_name_of(call)} was not told of"
                f" {list(keys)}"
            )
        errors: list[BaseException] = []
        done = BatchResult("", 0)  # a latch

        told = asyncio.run_coroutine_threadsafe(self._run(call, list(keys), errors), loop)
        told.add_done_callback(lambda _told: done.complete())
        while not done.finished:
            done.wait_finished(_LOOK_S)
            if not (done.finished or loop.is_running()):
                raise KprodError("the event loop stopped during a listener's call")
        if told.cancelled():  # with all tasks of the loop, before its first step
            raise KprodError(f"a task was cancelled: {_name_of(call)} was not told of {list(keys)}")
        for error in errors:
            raise error

    async def _run(
        self,
        call: Callable[[Any, list[TopicPartition]], Any],
        keys: list[TopicPartition],
        errors: list[BaseException],
    ) -> None:
        """Call a method in the loop; its error is raised by the read."""
        try:
            result = call(self._face(), keys)
            if inspect.isawaitable(result):
                await result
        except asyncio.CancelledError:  # the read is not cancelled
            text = f"a task was cancelled: {_name_of(call)} has not ended after it was told of"
            errors.append(KprodError(f"{text} {keys}"))
        except BaseException as error:  # noqa: BLE001 - raised again by the read
            errors.append(error)


def _name_of(call: object) -> str:
    """Name an application's method; its `repr` would run the `repr` of the application's object."""
    return str(getattr(call, "__qualname__", type(call).__qualname__))
