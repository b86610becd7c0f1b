"""The memory for batches: limits it, lets sends wait for it, and creates their errors.

The pool and its queue are compiled (`kprod._core.memory.chunk_pool`); this class has the policy.

Thread-safety: any thread.
Source: Kafka BufferPool (clients 4.3.1), KAFKA-3648, KAFKA-3651, KAFKA-9449 for what must hold.
"""

from collections.abc import Callable

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod.config import AccumulatorSettings
from kprod.errors import BufferTimeout, ClosedError
from kprod.wording import counted

LOOK_S = 1.0  # interval at which a waiter passes on memory granted to blocked event loops


class BufferPool(ChunkPool):
    """`buffer_memory` bytes, lent as chunks; callers wait in a queue when there are none.

    Args:
        settings: Its size, and the behaviour when it is exhausted.
        on_shortage: Called when a wait begins, so that open batches are sent.
        poisons: Whether to fill returned memory with a pattern, so that use after return is
            visible.
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
        """The maximum for a single record: whole large chunks."""
        return self.capacity_bytes // self.large_chunk_bytes * self.large_chunk_bytes

    def wait_for(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        """Wait until a queued waiter is satisfied.

        Args:
            waiter: A waiter that is in the queue already; its owner removes it on every path.
            timeout_ms: Remaining part of `max_block_ms`; with 0 or less it does not wait.

        Raises:
            BufferTimeout: No memory was freed in time, or `on_buffer_full` is "raise".
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

    def start_waiting(self, waiter: MemoryWaiter) -> None:
        """Add a waiter to the queue, without blocking; it is woken when it is satisfied.

        Args:
            waiter: The waiter; its owner removes it on every path.
        """
        self.add_waiter(waiter)
        if not waiter.settled:
            self._on_shortage()
            self.pass_on()

    def _sleep(self, waiter: MemoryWaiter, timeout_s: float) -> bool:
        """Wait until satisfied or timed out; passes on memory granted to blocked event loops."""
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
        """Create the error of a send that got no memory.

        Args:
            wanted_bytes: The required memory.
            available_bytes: The free memory.
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
