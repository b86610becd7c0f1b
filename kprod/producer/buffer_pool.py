"""Bounded memory for batches: who must wait for it, how long, and what they are told.

The pool's arithmetic and its line are compiled (`kprod._core.chunks`); this is the policy above.

Thread-safety: any thread.
Source: Kafka BufferPool (clients 4.3.1), KAFKA-3648, KAFKA-3651, KAFKA-9449 for what must hold.
"""

import os
from collections.abc import Callable

from kprod._core.chunks import ChunkPool, MemoryWaiter
from kprod.config import AccumulatorSettings
from kprod.errors import BufferTimeout, ClosedError

DEBUG_VARIABLE = "KPROD_DEBUG"


class BufferPool(ChunkPool):
    """`buffer_memory` bytes, lent out as chunks; callers wait in line when there are none.

    Args:
        settings: Its size, and what happens when it is empty.
        on_shortage: Called when someone begins to wait, so that open batches get sent.
    """

    def __init__(self, settings: AccumulatorSettings, on_shortage: Callable[[], object]) -> None:
        super().__init__(
            settings.buffer_memory, poisons=os.environ.get(DEBUG_VARIABLE, "") not in {"", "0"}
        )
        self._settings = settings
        self._on_shortage = on_shortage

    def wait_for(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        """Wait until a waiter that stands in line is satisfied.

        Args:
            waiter: In line already; its owner leaves the line on every path.
            timeout_ms: What is left of `max_block_ms`; at most 0 never waits.

        Raises:
            BufferTimeout: No memory in time, or `on_buffer_full` is "raise".
            ClosedError: The pool closed, before or during the wait.
        """
        if self._settings.on_buffer_full == "raise" and not waiter.wait(0):
            self._on_shortage()
            raise BufferTimeout(self._text(waiter, "on_buffer_full is 'raise'"))
        if self._settings.on_buffer_full != "raise":
            self._on_shortage()
            if not waiter.wait(max(timeout_ms, 0) / 1000):
                limit = f"none came free within max_block_ms={self._settings.max_block_ms}"
                raise BufferTimeout(self._text(waiter, limit))
        if waiter.closed:
            raise ClosedError("the producer was closed while a send waited for memory")

    def _text(self, waiter: MemoryWaiter, why: str) -> str:
        return (
            f"a record needs {waiter.wanted_bytes} more bytes of buffer, {self.available_bytes} of"
            f" buffer_memory={self.capacity_bytes} are available and {self.waiter_count} sends wait;"
            f" {why}. Send slower, or raise buffer_memory or max_block_ms"
        )
