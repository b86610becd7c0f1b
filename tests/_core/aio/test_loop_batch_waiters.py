"""Awaiting records and batches: a settled record costs no turn, a batch wakes its loop once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kprod.aio.producer_waits import until_finished
from kprod.errors import BrokerError
from kprod.model import RecordMetadata
from tests.producer.bench import TOPIC, Bench

MESSAGE_TOO_LARGE = 10


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often other threads would wake it."""

    woken = 0

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, **more: Any
    ) -> asyncio.Handle:
        """Count, and do it."""
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, **more)


def _run(deliver: Callable[[CountingLoop], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)
        runner.run(deliver(loop))


async def _awaited(future: Any) -> RecordMetadata:
    metadata: RecordMetadata = await future
    return metadata


async def _finished(bench: Bench) -> None:
    await until_finished(result for result, _ in bench.accumulator.incomplete())


async def _turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_thousand_waiters_are_told_in_one_call() -> None:
    """Records of three partitions, answered together: one call of the loop for all of them."""

    async def deliver(loop: CountingLoop) -> None:
        bench = Bench((0, 0, 0), linger_ms=0)
        futures = [bench.producer.send(TOPIC, b"v", partition=n % 3) for n in range(1000)]
        tasks = [asyncio.create_task(_awaited(future)) for future in futures]
        await _turns()
        assert not any(task.done() for task in tasks)
        loop.woken = 0
        bench.run(3)
        assert loop.woken == 1
        assert [(await task).offset for task in tasks] == [n // 3 for n in range(1000)]

    _run(deliver)


def test_a_settled_record_takes_no_turn_of_the_loop() -> None:
    """A thousand are awaited in one step of their task."""

    async def deliver(loop: CountingLoop) -> None:
        bench = Bench((0, 0, 0), linger_ms=0)
        futures = [bench.producer.send(TOPIC, b"v", partition=0) for n in range(1000)]
        bench.run(3)
        turns: list[int] = []
        loop.call_soon(turns.append, 1)
        assert [(await future).offset for future in futures] == list(range(1000))
        assert turns == []

    _run(deliver)


def test_a_waiter_that_gives_up_is_not_told() -> None:
    """Some waiters of a batch are cancelled; the others get their result."""

    async def deliver(loop: CountingLoop) -> None:
        bench = Bench((0, 0, 0), linger_ms=0)
        future = bench.producer.send(TOPIC, b"v", partition=0)
        tasks = [asyncio.create_task(_awaited(future)) for _ in range(10)]
        await _turns()
        for task in tasks[::2]:
            task.cancel()
        await _turns()
        loop.woken = 0
        bench.run(3)
        await _turns()
        assert loop.woken == 1
        assert [task.cancelled() for task in tasks] == [True, False] * 5
        assert {task.result() for task in tasks[1::2]} == {future.result(0)}

    _run(deliver)


def test_awaiting_follows_a_split() -> None:
    """The batch is too large for its broker and goes out in halves; each hears of its record."""

    async def deliver(loop: CountingLoop) -> None:
        bench = Bench((0, 0, 0), linger_ms=0)
        futures = [bench.producer.send(TOPIC, b"%d" % n, partition=0) for n in range(8)]
        tasks = [asyncio.create_task(_awaited(future)) for future in futures]
        covered = asyncio.create_task(_finished(bench))
        await _turns()
        while not bench.client.in_flight:
            bench.turn(1)
        bench.reject(bench.client.in_flight[0], MESSAGE_TOO_LARGE)
        bench.turn()
        await _turns()
        assert not any(task.done() for task in [*tasks, covered])
        bench.run(5)
        assert [(await task).offset for task in tasks] == list(range(8))
        await covered
        assert loop.woken >= 1

    _run(deliver)


def test_each_task_that_awaits_a_failure_gets_an_error_of_its_own() -> None:
    """Before and after the failure."""

    async def deliver(loop: CountingLoop) -> None:
        bench = Bench((0, 0, 0), linger_ms=0)
        future = bench.producer.send(TOPIC, b"v", partition=0)
        early = asyncio.create_task(_awaited(future))
        await _turns()
        while not bench.client.in_flight:
            bench.turn(1)
        bench.reject(bench.client.in_flight[0], 87)
        bench.turn()
        errors = await asyncio.gather(early, _awaited(future), return_exceptions=True)
        assert [type(error).__mro__[1] for error in errors] == [BrokerError, BrokerError]
        assert errors[0] is not errors[1]
        assert loop.woken == 1

    _run(deliver)


def test_finished_means_that_callbacks_have_run() -> None:
    """A batch is done before its callbacks run, and finished after."""

    async def deliver(loop: CountingLoop) -> None:
        bench = Bench((0, 0, 0), linger_ms=0)
        seen: list[object] = []
        bench.producer.send(
            TOPIC, b"v", partition=0, on_delivery=lambda metadata, _: seen.append(metadata)
        )
        waiting = asyncio.create_task(_finished(bench))
        await _turns()
        bench.run(3)
        assert not waiting.done()
        await waiting
        assert len(seen) == 1
        await until_finished([])
        assert loop.woken >= 1

    _run(deliver)


def test_a_loop_that_is_gone_keeps_nobody_waiting() -> None:
    """Its task waited; the batch is settled all the same, and others are told."""
    bench = Bench((0, 0, 0), linger_ms=0)
    future = bench.producer.send(TOPIC, b"v", partition=0)
    gone = asyncio.new_event_loop()
    task = gone.create_task(_awaited(future))
    gone.run_until_complete(_turns())
    gone.close()

    async def deliver(loop: CountingLoop) -> None:
        here = asyncio.create_task(_awaited(future))
        await _turns()
        bench.run(3)
        assert (await here).offset == 0
        assert loop.woken == 1

    _run(deliver)
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_awaiting_needs_a_loop() -> None:
    """Without one, a settled record gives its result, and an unsettled one an error."""
    bench = Bench((0, 0, 0), linger_ms=0)
    future = bench.producer.send(TOPIC, b"v", partition=0)
    with pytest.raises(RuntimeError, match="no running event loop"):
        next(future.__await__())
    bench.run(3)
    with pytest.raises(StopIteration) as end:
        next(future.__await__())
    assert end.value.value == future.result(0)
