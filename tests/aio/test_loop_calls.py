"""Telling an event loop from other threads, with Ctrl-C in the midst of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kprod._core.async_send import LoopMemoryWaiter
from kprod._core.chunks import ChunkPool, MemoryWaiter
from kprod._core.loop_calls import LoopSignal

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
                first.wake()
            second.wake()
            return await asyncio.wait_for(first.future, 5) and await second.future

        assert runner.run(wait())


def test_an_interrupted_call_lets_the_others_in_line_go_on() -> None:
    """Closing wakes an event loop and threads; Ctrl-C in the first leaves nobody asleep."""
    with asyncio.Runner(loop_factory=_Interrupted) as runner:

        async def close() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, _Interrupted)
            pool = ChunkPool(CHUNK, small_chunk_bytes=CHUNK, large_chunk_bytes=CHUNK)
            assert pool.try_chain() is not None
            first, second = LoopMemoryWaiter(1, True, CHUNK), MemoryWaiter(1, True, CHUNK)
            first.pool = pool
            pool.join_line(first)
            pool.join_line(second)
            loop.interrupts = 1
            with pytest.raises(KeyboardInterrupt):
                pool.close()
            assert second.wait(0)
            assert await asyncio.wait_for(first.signal.future, 5)

        runner.run(close())
