"""Telling an event loop from other threads, with Ctrl-C in the midst of it."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from kprod._core.aio.async_send import LoopMemoryWaiter
from kprod._core.aio.loop_mailbox import LoopSignal
from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.memory.memory_waiter import MemoryWaiter
from tests.producer.bench import TOPIC, Bench

CHUNK = 16_384


class _Interrupted(asyncio.SelectorEventLoop):
    """A loop that a signal handler interrupts while another thread wakes it."""

    interrupts = 0

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, **more: Any
    ) -> Any:
        """Raise before anything is done, as often as was asked for."""
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        return super().call_soon_threadsafe(callback, *args, **more)


def test_an_interrupted_call_wakes_its_loop_all_the_same() -> None:
    """And so do those after it: else everyone in that loop would wait for ever."""
    with asyncio.Runner(loop_factory=_Interrupted) as runner:

        async def wait() -> bool:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, _Interrupted)
            first, second = LoopSignal(), LoopSignal()
            loop.interrupts = 1
            with pytest.raises(KeyboardInterrupt):
                first.release()
            second.release()
            return await asyncio.wait_for(first.future, 5) and await second.future

        assert runner.run(wait())


def test_an_interrupted_call_lets_waiting_ones_continue() -> None:
    """Closing wakes an event loop and threads; Ctrl-C in the first leaves nobody asleep."""
    with asyncio.Runner(loop_factory=_Interrupted) as runner:

        async def close() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, _Interrupted)
            pool = ChunkPool(CHUNK, small_chunk_bytes=CHUNK, large_chunk_bytes=CHUNK)
            assert pool.try_chain() is not None
            first, second = LoopMemoryWaiter(1, True, CHUNK), MemoryWaiter(1, True, CHUNK)
            first.pool = pool
            pool.add_waiter(first)
            pool.add_waiter(second)
            loop.interrupts = 1
            with pytest.raises(KeyboardInterrupt):
                pool.close()
            assert second.wait(0)
            assert await asyncio.wait_for(first.signal.future, 5)

        runner.run(close())


class _Signalled(asyncio.SelectorEventLoop):
    """A loop that a signal reaches while another thread wakes it."""

    signals = 0

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, **more: Any
    ) -> Any:
        """Send the signal, as often as was asked for, before anything is done."""
        if self.signals:
            self.signals -= 1
            signal.raise_signal(signal.SIGUSR1)
        return super().call_soon_threadsafe(callback, *args, **more)


def _fail(_number: int, _frame: FrameType | None) -> None:
    raise RuntimeError("the application's handler failed")


def test_a_runtime_error_of_a_signal_handler_does_not_count_as_a_closed_loop() -> None:
    """A closed loop raises RuntimeError too; but here everyone who waits is still told."""
    before = signal.signal(signal.SIGUSR1, _fail)
    try:
        with asyncio.Runner(loop_factory=_Signalled) as runner:

            async def wait() -> tuple[bool, bool]:
                loop = asyncio.get_running_loop()
                assert isinstance(loop, _Signalled)
                first, second = LoopSignal(), LoopSignal()
                loop.signals = 1
                with contextlib.suppress(RuntimeError):
                    first.release()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                second.release()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                return first.future.done(), second.future.done()

            assert runner.run(wait()) == (True, True)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_closed_loop_is_not_told() -> None:
    """Its signal says so, and raises nothing."""
    loop = asyncio.new_event_loop()

    async def make() -> LoopSignal:
        await asyncio.sleep(0)
        return LoopSignal()

    made = loop.run_until_complete(make())
    loop.close()
    made.release()
    assert not made.is_heard
    assert not made.future.done()


def test_a_callback_that_its_loop_rejects_costs_no_other_its_call() -> None:
    """In debug mode a loop rejects coroutine functions, and only once the record is settled."""
    bench = Bench(linger_ms=0)
    bench.lead(0, 1)
    rejected: list[Any] = []
    called: list[Any] = []

    async def never(_: object) -> None:
        """Stands for a callback that should have been a task."""

    async def deliver() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: rejected.append(told))
        deliveries = [bench.producer.send(TOPIC, b"%d" % n, partition=n // 2) for n in range(4)]
        deliveries[0].add_done_callback(never)
        for delivery in deliveries:
            delivery.add_done_callback(called.append)
        waiting = asyncio.gather(*deliveries)
        while len(bench.client.in_flight) < 2:
            bench.turn(1)
        for carried in list(bench.client.in_flight):
            bench.answer(carried)
        bench.turn()
        await asyncio.wait_for(waiting, 5)
        assert called == deliveries

    asyncio.run(deliver(), debug=True)
    bench.producer.close(0)
    assert len(rejected) == 1
    assert "coroutines cannot be used" in str(rejected[0]["exception"])


def test_a_callback_is_taken_back_after_another_loop_of_the_thread_has_run() -> None:
    """A thread runs two loops in turn; each knows what was added in it."""
    bench = Bench(linger_ms=0)
    called: list[Any] = []
    with asyncio.Runner() as runner, asyncio.Runner() as other:
        delivery = bench.producer.send(TOPIC, b"")

        async def add() -> None:  # noqa: RUF029 - in the loop, but it need not wait
            delivery.add_done_callback(called.append)

        async def take_back() -> int:  # noqa: RUF029 - as above
            return delivery.remove_done_callback(called.append)

        runner.run(add())
        other.run(add())
        assert runner.run(take_back()) == 1
        assert runner.run(take_back()) == 0
        assert other.run(take_back()) == 1
        bench.producer.close(0)
        runner.run(asyncio.sleep(0))
        other.run(asyncio.sleep(0))
    assert called == []
