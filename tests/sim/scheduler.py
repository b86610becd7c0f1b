"""Virtual time and the actors that live in it: a heap of events, and greenlets for threads.

Events at the same time run in a random order. An actor is a greenlet that yields only where it
would wait: in `Actor.sleep`. Everything runs in one system thread, so a run is a function of its
plan.
"""

from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable
from heapq import heappop, heappush

import greenlet

from kprod.clock import ManualClock
from tests.sim.draw import Draw

MS = 1_000_000  # nanoseconds
_ORDER_BITS = 30


class LivelockError(AssertionError):
    """A run used more events than its work can explain."""


class Event:
    """Something that will happen; `is_cancelled` keeps it from happening."""

    __slots__ = ("action", "is_cancelled")

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.is_cancelled = False


class Scheduler:
    """The events of one run.

    Args:
        seed: Seed of the run.

    Attributes:
        clock: Clock that kprod reads.
        now_ns: The present instant, which is the clock's.
        event_count: Events that have happened.
        event_limit: More events are a `LivelockError`.
        hub: The greenlet in which events happen; an actor that waits switches to it.
    """

    def __init__(self, seed: int) -> None:
        self.clock = ManualClock(now_ms=1_000)
        self.now_ns = self.clock.now_ns()
        self.event_count = 0
        self.event_limit = 20_000
        self._draw_bits = Draw(seed, "order").bits
        self._heap: list[tuple[int, int, int, Event]] = []
        self._made = 0
        self.hub = greenlet.getcurrent()
        self._actors: list[Actor] = []

    @property
    def current(self) -> "Actor | None":
        """The actor that runs; None while an event of its own happens."""
        return getattr(greenlet.getcurrent(), "actor", None)

    def at(self, instant_ns: int, action: Callable[[], object]) -> Event:
        """Let something happen at an instant, now at the earliest."""
        event = Event(action)
        self._made += 1
        if instant_ns < self.now_ns:  # noqa: PLR1730 - `max` costs as much as the rest
            instant_ns = self.now_ns
        heappush(self._heap, (instant_ns, self._draw_bits(_ORDER_BITS), self._made, event))
        return event

    def after(self, delay_ns: int, action: Callable[[], object]) -> Event:
        """Let something happen after a delay."""
        return self.at(self.now_ns + delay_ns, action)

    def run_until(self, horizon_ns: int) -> None:
        """Let everything happen up to an instant, and end there.

        Args:
            horizon_ns: An instant that has not passed.

        Raises:
            LivelockError: There were more events than `event_limit`.
        """
        heap = self._heap
        while heap and heap[0][0] <= horizon_ns:
            instant_ns, _, _, event = heappop(heap)
            if event.is_cancelled:
                continue
            if instant_ns > self.now_ns:
                self._advance_to(instant_ns)
            self.event_count += 1
            if self.event_count > self.event_limit:
                raise LivelockError(f"{self.event_count} events: the run does not come to rest")
            event.action()
        self._advance_to(horizon_ns)

    def _advance_to(self, instant_ns: int) -> None:
        self.clock.advance_ns(instant_ns - self.now_ns)
        self.now_ns = instant_ns

    def new_actor(self, actor: "Actor") -> int:
        """Number an actor."""
        self._actors.append(actor)
        return len(self._actors)

    def end_actors(self) -> int:
        """End every actor that still sleeps; return how many there were."""
        left = [actor for actor in self._actors if not actor.is_over]
        for actor in left:
            actor.kill()
        return len(left)


class _Body(greenlet.greenlet):  # type: ignore[misc]  # it ships no types
    """A greenlet that knows its actor."""

    actor: "Actor"


class Actor:
    """A greenlet that sleeps in virtual time.

    Args:
        scheduler: Scheduler of the run.
        body: Runs until it returns.

    Attributes:
        number: Its number among all actors of the run.
        frozen_until_ns: The actor does not run before this instant, as if the system had stopped
            its thread.
    """

    def __init__(self, scheduler: Scheduler, body: Callable[[], object]) -> None:
        self.frozen_until_ns = 0
        self._scheduler = scheduler
        self._hub = scheduler.hub
        self._is_idle = False
        self.number = scheduler.new_actor(self)
        self._greenlet = _Body(body)
        self._greenlet.actor = self
        self._alarm: Event | None = scheduler.after(0, self._resume)

    @property
    def is_over(self) -> bool:
        """Whether the body has returned."""
        return bool(self._greenlet.dead)

    @property
    def is_running(self) -> bool:
        """Whether the caller is inside the body."""
        return greenlet.getcurrent() is self._greenlet

    def sleep(self, until_ns: int) -> None:
        """Give way until an instant, or until `wake`; called inside the body."""
        self._alarm = self._scheduler.at(until_ns, self._resume)
        running = _get_running_loop()
        if running is None:
            self._hub.switch()
            return
        _set_running_loop(None)  # it is known by the system's thread, which all actors share
        self._hub.switch()
        _set_running_loop(running)

    def sleep_idle(self, until_ns: int) -> None:
        """Sleep for want of work, which `wake_if_idle` ends."""
        self._is_idle = True
        self.sleep(until_ns)
        self._is_idle = False

    def wake_if_idle(self) -> None:
        """End a sleep for want of work; a wait for anything else continues."""
        if self._is_idle:
            self.wake()

    def wake(self) -> None:
        """End the sleep soon; an actor that is awake sleeps on as it likes."""
        if self._alarm is not None:
            self._alarm.is_cancelled = True
            self._alarm = self._scheduler.after(0, self._resume)

    def kill(self) -> None:
        """End the body where it sleeps."""
        if self._alarm is not None:
            self._alarm.is_cancelled = True
        self._greenlet.throw()

    def thaw(self) -> None:
        """End a freeze."""
        self.frozen_until_ns = 0
        self.wake()

    def _resume(self) -> None:
        if self._scheduler.now_ns < self.frozen_until_ns:
            self._alarm = self._scheduler.at(self.frozen_until_ns, self._resume)
            return
        self._alarm = None
        if not self._greenlet.dead:
            self._greenlet.switch()
