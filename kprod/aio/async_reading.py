"""Reads records in asyncio: the attempts of the consumer's engine, with waits of a task.

An attempt never waits. A task that finds nothing waits for the engine's next notification, and
tries again. Between an attempt that has taken records and the return to the caller there is no
`await`, so a cancelled read has taken nothing; before its first attempt each read lets the loop
turn once, or a task that always finds records would keep the others from running.

One task at a time reads. The check is by task: an iteration belongs to the task that asked for its
records, until the iterator is gone or at its end.

Thread-safety: one event loop at a time.
Source: aiokafka 0.14 for what applications expect.
"""

import asyncio
import weakref
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeVar

from kprod._core.aio.loop_mailbox import LoopSignal
from kprod.aio.task_waits import ThreadCall, settled_within
from kprod.consumer.consumer_engine import ConsumerEngine
from kprod.consumer.iterator_chunk import IteratorChunk
from kprod.consumer.parts import check_timeout
from kprod.consumer.record_reading import ReadCall
from kprod.errors import ClosedError, ConcurrentPoll

if TYPE_CHECKING:
    from kprod.aio.loop_listener import LoopListener

Taken = TypeVar("Taken")
Result = TypeVar("Result")
# A wait without a deadline looks at its condition as often: the loop may have other work meanwhile.
_LOOK_S = 1.0


class AsyncReading:
    """The reading part of one asynchronous consumer."""

    __slots__ = ("_engine", "_is_ended", "_iteration", "_last", "_reader", "_steps", "listener")

    def __init__(self, engine: ConsumerEngine) -> None:
        """Start without a reading task.

        Args:
            engine: The consumer's engine.
        """
        self._engine = engine
        self._reader: _Reader | None = None
        self._last: weakref.ref[asyncio.Task[Any]] | None = None  # the task that has read last
        self._is_ended = False
        self._iteration: _Iteration | None = None
        self._steps: ThreadCall[None] | None = None  # of a rebalance
        self.listener: LoopListener | None = None

    async def read(
        self,
        call: ReadCall[Taken, Result],
        timeout: float | None,  # noqa: ASYNC109 - as Consumer.poll
    ) -> Result:
        """Wait for records, and return them.

        Args:
            call: A read of the engine.
            timeout: Seconds to wait for the first record; None for no limit.

        Returns:
            The result of `call.finish`, with or without records.

        Raises:
            ConcurrentPoll: Another task is reading or iterating.
            ClosedError: The consumer is closed, or was closed during the call.
            KprodError: As for `Consumer.poll`.
        """
        check_timeout(timeout)
        loop = asyncio.get_running_loop()
        reader = _Reader(loop)
        self._check_alone(reader)
        try:
            self._reader = reader
            self._last = None if reader.task is None else weakref.ref(reader.task)
            until_s = None if timeout is None else loop.time() + timeout
            if self.listener is not None:
                self.listener.loop = loop
            await asyncio.sleep(0)
            while True:
                are_done = await self._run_steps(None if until_s is None else until_s - loop.time())
                if self._is_ended:
                    raise ClosedError("the consumer is closed; make another")
                if not are_done:
                    return call.finish(call.nothing())
                is_last = until_s is not None and loop.time() >= until_s
                found = self._attempt(call, is_last=is_last)
                if found is not None:
                    return found[0]
                await self._news(None if until_s is None else until_s - loop.time())
        finally:
            if self._reader is reader:
                self._reader = None

    def end(self) -> bool:
        """Make reads raise `ClosedError` from now on.

        Returns:
            Whether another task may be working on the records that it has read last.
        """
        self._is_ended = True
        self._engine.parts.mailbox.notify()
        task = None if self._last is None else self._last()
        if task is None or task is asyncio.current_task():
            return False
        return task.cancelled() or not task.done()

    def records(self) -> AsyncGenerator[Any, None]:
        """Return an iterator over records; see `AsyncConsumer.__aiter__`."""
        iteration = _Iteration()
        records = self._records(iteration)
        iteration.iterator = weakref.ref(records)
        return records

    async def _records(self, iteration: "_Iteration") -> AsyncGenerator[Any, None]:
        hand_over = self._engine.parts.hand_over
        while (chunk := await self._next_chunk()) is not None:
            iteration.task = asyncio.current_task()
            self._iteration = iteration
            for record in hand_over.records_of(chunk):
                yield record

    async def _next_chunk(self) -> IteratorChunk | None:
        limit_ms = self._engine.parts.config.consumer_timeout_ms
        limit_s = None if limit_ms < 0 else limit_ms / 1_000
        call = self._engine.reading.chunk_call()
        while True:
            chunk = await self.read(call, limit_s)
            if chunk is not False:
                return chunk

    def _attempt(self, call: ReadCall[Taken, Result], *, is_last: bool) -> tuple[Result] | None:
        """Read without waiting; None if there are no records and another attempt may follow."""

        def finish(taken: Taken) -> tuple[Result] | None:
            return (call.finish(taken),) if taken or is_last else None

        attempt = ReadCall(
            call.take, finish, call.nothing, raises_problem=call.raises_problem and is_last
        )
        now_ms = self._engine.parts.clock.now_ms()
        return self._engine.read(attempt, now_ms, runs_steps=False)

    async def _run_steps(self, timeout_s: float | None) -> bool:
        """Run the steps for the polling thread; those of a group may wait for a commit.

        A read that is cancelled, or whose time is over, leaves its steps running; the next read
        waits for their end.

        Returns:
            Whether all have ended.
        """
        parts = self._engine.parts
        if self._steps is not None and self._steps.ended.get_loop().is_closed():
            self._steps = None
        if self._steps is None:
            if not parts.mailbox.has_steps:
                return True
            with parts.alone:
                parts.hand_over.settle()  # the records of the read before are done
                if parts.group is None:
                    return parts.mailbox.run_steps()
            self._steps = ThreadCall(self._steps_alone, f"kprod-steps-{self._engine.client_id}")
        steps = self._steps
        limit_s = None if timeout_s is None else max(0, timeout_s)
        await asyncio.wait({steps.ended}, timeout=limit_s)
        if not steps.ended.done():
            return False
        self._steps = None
        steps.result()
        return True

    def _steps_alone(self) -> None:
        with self._engine.parts.alone:
            self._engine.parts.mailbox.run_steps()

    async def _news(self, timeout_s: float | None) -> None:
        """Wait until another attempt may do something."""
        mailbox = self._engine.parts.mailbox
        signal = LoopSignal()
        mailbox.add_waiter(signal)
        try:
            if not self._engine.reading.has_news():  # checked when none can be missed any more
                wait_s = _LOOK_S if timeout_s is None else min(timeout_s, _LOOK_S)
                self._engine.parts.activity.is_waiting = True
                await settled_within(signal.future, wait_s)
        finally:
            self._engine.parts.activity.is_waiting = False
            mailbox.remove_waiter(signal)

    def _check_alone(self, reader: "_Reader") -> None:
        other, iteration = self._reader, self._iteration
        if other is not None and not other.loop.is_closed():
            who = "this task already" if other.task is reader.task else "another task"
            raise ConcurrentPoll(
                f"this consumer is being read by {who}; one task at a time may poll or iterate"
            )
        if iteration is None or iteration.task is reader.task:
            return
        if iteration.is_alive and self._engine.parts.hand_over.chunk is not None:
            raise ConcurrentPoll(
                "another task iterates over this consumer; one task at a time may poll or iterate"
            )


class _Reader:
    """A task that waits for records."""

    __slots__ = ("loop", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.task = asyncio.current_task()


class _Iteration:
    """An iterator, and the task that it belongs to."""

    __slots__ = ("iterator", "task")

    def __init__(self) -> None:
        self.iterator: weakref.ref[Any] | None = None
        self.task: asyncio.Task[Any] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the iterator can be asked for another record."""
        is_there = self.iterator is not None and self.iterator() is not None
        return is_there and self.task is not None and not self.task.done()
