"""FIFO of one event loop's sends that wait for buffer memory.

They share one place in the pool's queue, however many wait: a chunk of memory has room for many
records, so it would be wrong to get one for each. The first task gets the memory, tries, and
leaves; then the next few try, which often find room in the memory of the first. A send tries in
its own task and nowhere else, so that it can be cancelled until the very moment when its record is
appended.

The position in the pool's queue belongs to the loop, not to its first task: if that task gives up,
the next one takes over, and threads and other loops do not overtake it.

A loop may stop between any two iterations and never run again. Memory granted to it stays in the
pool until a record is appended with it, so other waiters can take it (`ChunkPool.pass_on`).

Invariants.
    While a task waits, either the queue's own waiter is in the pool's queue, or one of the tasks
    that wait has been woken and will try; `_pass_on` sees to it after every try and every leave.
    No task holds chunks from one iteration of the loop to the next.

Thread-safety: the event loop's.
Source: kprod's departure 22, for what asyncio does about a full buffer.
"""

import asyncio
from collections import OrderedDict
from functools import partial
from itertools import islice

from kprod._core.aio.async_send import LoopMemoryWaiter, Sending
from kprod._core.outcome.record_future import RecordFuture
from kprod._core.send.partition_appender import ReservedChunks
from kprod.producer.buffer_pool import LOOK_S, BufferPool

WOKEN_MAX = 64  # at a time; a large chunk has room for 150 records of 100 bytes


class MemoryWaitQueue:
    """FIFO of one loop's sends that wait for buffer memory."""

    __slots__ = ("__weakref__", "_granted", "_loop", "_places", "_pool", "_waiter", "_woken_count")

    def __init__(self, pool: BufferPool) -> None:
        """Create an empty queue.

        Args:
            pool: Lends the memory.
        """
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        # ordered, with O(1) removal anywhere
        self._places: OrderedDict[_Place, None] = OrderedDict()
        self._waiter: LoopMemoryWaiter | None = None  # in the pool's queue
        self._granted: LoopMemoryWaiter | None = None  # satisfied; what it has is not claimed
        self._woken_count = 0

    async def send(self, sending: Sending, timeout_s: float) -> RecordFuture | None:
        """Append a record as soon as there is room for it.

        Args:
            sending: A send that found no memory.
            timeout_s: Longest wait.

        Returns:
            The record's future; None if something else than room is missing.

        Raises:
            BufferTimeout: No room in time.
            ClosedError: The producer was closed meanwhile.
        """
        place = _Place(self._loop)
        self._places[place] = None
        try:
            place.expire_in(max(timeout_s, 0))
            while True:
                is_first = next(iter(self._places)) is place
                reserved = ReservedChunks()
                future = sending.attempt(reserved)
                if future is None and is_first and reserved.missing_count:
                    future = self._attempt_with_grant(sending, reserved)
                if future is not None or not (sending.knows_partition and reserved.missing_count):
                    return future
                if place.is_expired:
                    raise self._pool.timeout_error(
                        self._size_bytes(reserved), self._pool.available_bytes
                    )
                if is_first:
                    self._request(reserved)
                self._tried(place)
                await place.next_try()
        finally:
            place.cancel()
            del self._places[place]
            self._tried(place)

    def _attempt_with_grant(
        self, sending: Sending, reserved: ReservedChunks
    ) -> RecordFuture | None:
        """Try the append with the memory that the pool has granted; unused memory returns."""
        granted, self._granted = self._granted, None
        if granted is None:
            return None
        try:
            reserved.chunks = self._pool.claim(granted)
            return sending.attempt(reserved)
        finally:
            chunks, reserved.chunks = reserved.chunks, []
            try:
                self._pool.remove_waiter(granted)
            finally:
                self._pool.give_back(chunks)

    def _tried(self, place: "_Place") -> None:
        if place.is_woken:
            place.is_woken = False
            self._woken_count -= 1
        self._pass_on()

    def _pass_on(self) -> None:
        if not self._places:
            self._cancel_request()
        elif not self._woken_count and self._waiter is None:
            self._wake(WOKEN_MAX)

    def _wake(self, count: int) -> None:
        if self._loop.is_closed():
            return  # its tasks are being thrown away; each leaves by itself
        for place in islice(self._places, count):
            if place.wake():
                self._woken_count += 1

    def _request(self, reserved: ReservedChunks) -> None:
        """Request the missing memory of the first send from the pool, unless done already."""
        if self._waiter is not None:
            return
        size_bytes = self._size_bytes(reserved) // reserved.missing_count
        waiter = LoopMemoryWaiter(reserved.missing_count, reserved.missing_large, size_bytes)
        waiter.pool = self._pool
        waiter.signal.future.add_done_callback(partial(self._end_wait, waiter))
        self._waiter = waiter
        self._pool.start_waiting(waiter)
        self._loop.call_later(LOOK_S, self._look, waiter)

    def _look(self, waiter: LoopMemoryWaiter) -> None:
        """While waiting, make sure that no blocked loop keeps granted memory from this one."""
        if waiter is self._waiter:
            self._pool.pass_on()
            self._loop.call_later(LOOK_S, self._look, waiter)

    def _end_wait(self, waiter: LoopMemoryWaiter, _: asyncio.Future[bool]) -> None:
        """The pool has satisfied the waiter, or was closed."""
        if waiter is not self._waiter:
            return
        self._waiter, self._granted = None, waiter
        self._wake(len(self._places) if waiter.closed else WOKEN_MAX)
        self._pass_on()

    def _cancel_request(self) -> None:
        """Nobody waits any more."""
        waiters = self._waiter, self._granted
        self._waiter = self._granted = None
        for waiter in waiters:
            if waiter is not None:
                self._pool.remove_waiter(waiter)

    def _size_bytes(self, reserved: ReservedChunks) -> int:
        pool = self._pool
        chunk_bytes = pool.large_chunk_bytes if reserved.missing_large else pool.small_chunk_bytes
        return reserved.missing_count * chunk_bytes


class _Place:
    """One waiting task."""

    __slots__ = ("_loop", "_timer", "_turn", "is_expired", "is_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turn: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_expired = False
        self.is_woken = False

    async def next_try(self) -> None:
        """Sleep until woken or expired."""
        if self.is_expired:
            return
        self._turn = self._loop.create_future()
        await self._turn

    def wake(self) -> bool:
        """Let the task try again; False if it is about to anyway."""
        if self._turn is None or self._turn.done():
            return False
        self.is_woken = True
        self._turn.set_result(None)
        return True

    def expire_in(self, timeout_s: float) -> None:
        """Let the task try for the last time after a while, unless that is cancelled."""
        self._timer = self._loop.call_later(timeout_s, self.expire)

    def cancel(self) -> None:
        """Cancel the expiry."""
        if self._timer is not None:
            self._timer.cancel()

    def expire(self) -> None:
        """Let the task try for the last time."""
        self.is_expired = True
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)
