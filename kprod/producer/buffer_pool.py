"""Bounded memory for batches: which sends wait for it, how long, and their errors.

The pool's arithmetic and its line are compiled (`kprod._core.memory.chunk_pool`); this is the
policy above.

Thread-safety: any thread.
Source: Kafka BufferPool (clients 4.3.1), KAFKA-3648, KAFKA-3651, KAFKA-9449 for what must hold.
"""

from collections.abc import Callable

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod.config import AccumulatorSettings
from kprod.errors import BufferTimeout, ClosedError
from kprod.wording import counted

LOOK_S = 1.0  # how often a waiter passes on memory that is granted to blocked event loops


class BufferPool(ChunkPool):
    """`buffer_memory` bytes, lent out as chunks; callers wait in line when there are none.

    Args:
        settings: Its size, and what happens when it is empty.
        on_shortage: Called when someone begins to wait, so that open batches get sent.
        poisons: Fill returned memory with a pattern, to make use after return visible.
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        on_shortage: Callable[[], object],
        *,
        poisons: bool = False,
    ) -> None:
        super().__init__(settings.buffer_memory, poisons=poisons)
        self._settings = settings
        self._on_shortage = on_shortage

    @property
    def usable_bytes(self) -> int:
        """The most that one record can get: whole large chunks."""
        return self.capacity_bytes // self.large_chunk_bytes * self.large_chunk_bytes

    def wait_for(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        """Wait until a queued waiter is satisfied.

        Args:
            waiter: In line already; its owner leaves the line on every path.
            timeout_ms: The rest of `max_block_ms`; at most 0 never waits.

        Raises:
            BufferTimeout: No memory in time, or `on_buffer_full` is "raise".
            ClosedError: The pool closed, before or during the wait.
        """
        if not waiter.wait(0):
            self._on_shortage()
            may_wait = self._settings.on_buffer_full != "raise"
            if not may_wait or not self._sleep(waiter, max(timeout_ms, 0) / 1000):
                why = None if may_wait else "on_buffer_full is 'raise'"
                available_bytes = self.available_bytes + waiter.granted_bytes
                raise self.timeout_error(waiter.wanted_bytes, available_bytes, reason=why)
        if waiter.closed:
            raise ClosedError("the producer was closed while a send waited for memory")

    def stand_in_line(self, waiter: MemoryWaiter) -> None:
        """Put a waiter into the line, which is told when it is satisfied; nobody sleeps here.

        Args:
            waiter: Its owner leaves the line on every path.
        """
        self.join_line(waiter)
        if not waiter.settled:
            self._on_shortage()
            self.pass_on()

    def _sleep(self, waiter: MemoryWaiter, timeout_s: float) -> bool:
        """Wait until satisfied or timed out; pass on memory granted to blocked event loops."""
        self.pass_on()
        while timeout_s > LOOK_S:
            if waiter.wait(LOOK_S):
                return True
            self.pass_on()
            timeout_s -= LOOK_S
        return waiter.wait(timeout_s)

    def timeout_error(
        self, wanted_bytes: int, available_bytes: int, *, reason: str | None = None
    ) -> BufferTimeout:
        """Explain why a send got no memory.

        Args:
            wanted_bytes: What it needs.
            available_bytes: What there is, for it alone.
            reason: Why it did not wait; None if it did.

        Returns:
            The error to raise.
        """
        if reason is None:
            why = f"no more came free within max_block_ms={self._settings.max_block_ms}"
            remedy = "raise buffer_memory or max_block_ms"
        else:
            why = reason
            remedy = "raise buffer_memory, or let sends wait (on_buffer_full='block')"
        waiting = counted(self.waiter_count, "send waits", "sends wait")
        return BufferTimeout(
            f"a record needs {wanted_bytes} more bytes of buffer; {available_bytes} of"
            f" buffer_memory={self.capacity_bytes} are available, {waiting} for some, and {why}."
            f" Send slower, or {remedy}"
        )
