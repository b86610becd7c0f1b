"""The rivals of `timer`: the same three operations for each way of keeping deadlines.

Each is set up at its best: no wrapper around C code, and time that does not change costs it
a C call. `add` takes a delay in its own unit and a callback, `cancel` what `add` gave, `turn` moves
the time and fires.

Thread-safety: one thread, the caller's.
"""

import asyncio
import heapq
import sched
from collections.abc import Callable
from typing import Any, Protocol

from kprod.timer import Timer, TimerTask

Callback = Callable[[], object]


class Rival(Protocol):
    """One way of keeping deadlines."""

    @property
    def unit_ms(self) -> float:
        """A delay of one, in ms."""

    @property
    def add(self) -> Callable[[Any, Callback], Any]:
        """Add a timer; its handle."""

    @property
    def cancel(self) -> Callable[[Any], object]:
        """Cancel by the handle."""

    def turn(self, now_ms: int) -> None:
        """Move the time, fire due timers, do the housekeeping that a loop's turn does."""

    def close(self) -> None:
        """Close everything."""


class Wheel:
    """kprod's timer."""

    unit_ms = 1

    def __init__(self) -> None:
        """Start at 0."""
        self.timer = Timer(0)
        self.add = self.timer.schedule
        self.cancel: Callable[[Any], object] = TimerTask.cancel

    def turn(self, now_ms: int) -> None:
        """Fire."""
        self.timer.advance(now_ms)

    def close(self) -> None:
        """Cancel all."""
        self.timer.clear()


class CompactingHeap:
    """`heapq`, which marks cancelled timers and compacts when they are half of it."""

    unit_ms = 1

    def __init__(self) -> None:
        """Start at 0."""
        self.heap: list[list[Any]] = []
        self.sequence = 0
        self.cancelled = 0
        self.now_ms = 0

    def add(self, delay_ms: int, callback: Callback) -> list[Any]:
        """Push an entry."""
        self.sequence = sequence = self.sequence + 1
        entry = [self.now_ms + delay_ms, sequence, callback]
        heapq.heappush(self.heap, entry)
        return entry

    def cancel(self, entry: list[Any]) -> None:
        """Mark it; compact if that was one too many."""
        entry[2] = None
        self.cancelled = cancelled = self.cancelled + 1
        if cancelled * 2 > len(self.heap):
            self.heap = [each for each in self.heap if each[2] is not None]
            heapq.heapify(self.heap)
            self.cancelled = 0

    def turn(self, now_ms: int) -> None:
        """Fire."""
        self.now_ms = now_ms
        heap = self.heap
        while heap and heap[0][0] <= now_ms:
            callback = heapq.heappop(heap)[2]
            if callback is None:
                self.cancelled -= 1
            else:
                callback()

    def close(self) -> None:
        """Drop all."""
        self.heap.clear()


class CallLater:
    """`asyncio`: `call_later` and `TimerHandle.cancel`, on a loop whose time is moved by hand."""

    unit_ms = 1_000

    def __init__(self) -> None:
        """Start at 0."""
        self.loop = asyncio.new_event_loop()
        self._stand_at(0)
        self.add = self.loop.call_later
        self.cancel: Callable[[Any], object] = asyncio.TimerHandle.cancel

    def _stand_at(self, now_ms: int) -> None:
        self.loop.time = (now_ms / 1_000).__float__  # type: ignore[method-assign]  # a C call

    def turn(self, now_ms: int) -> None:
        """Run the loop once: it fires, and drops cancelled timers when they are more than half."""
        self._stand_at(now_ms)
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def close(self) -> None:
        """Close the loop."""
        self.loop.close()


class Scheduler:
    """`sched`, which finds what it cancels by looking at everything."""

    unit_ms = 1

    def __init__(self) -> None:
        """Start at 0."""
        self.now_ms = 0
        self.scheduler = sched.scheduler(lambda: self.now_ms, lambda _delay: None)
        self.cancel: Callable[[Any], object] = self.scheduler.cancel

    def add(self, delay_ms: int, callback: Callback) -> sched.Event:
        """Enter it."""
        return self.scheduler.enter(delay_ms, 0, callback)

    def turn(self, now_ms: int) -> None:
        """Fire."""
        self.now_ms = now_ms
        self.scheduler.run(blocking=False)

    def close(self) -> None:
        """Drop all."""


RIVALS: dict[str, Callable[[], Rival]] = {
    "kprod": Wheel,
    "heapq, compacting": CompactingHeap,
    "asyncio call_later": CallLater,
    "sched": Scheduler,
}
