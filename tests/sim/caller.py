"""A thread of the application: an actor that makes its calls one after another, and may wait."""

from collections import deque
from collections.abc import Callable

from tests.sim.scheduler import MS, Actor, Scheduler

_IDLE_NS = 3_600_000 * MS


class Caller:
    """Makes calls in turn.

    Args:
        scheduler: Scheduler of the run.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._calls: deque[Callable[[], object]] = deque()
        self._is_ending = False
        self._actor = Actor(scheduler, self._run)

    @property
    def is_over(self) -> bool:
        """Whether every call has returned after `end`."""
        return self._actor.is_over

    def add(self, call: Callable[[], object]) -> None:
        """Make a call when those before it have returned."""
        self._calls.append(call)
        self._actor.wake_if_idle()

    def end(self) -> None:
        """Make no call after those that were added."""
        self._is_ending = True
        self._actor.wake_if_idle()

    def drop(self) -> None:
        """Make none of the calls that wait for their turn."""
        self._calls.clear()

    def _run(self) -> None:
        while self._calls or not self._is_ending:
            if self._calls:
                self._calls.popleft()()
            else:
                self._actor.sleep_idle(self._scheduler.now_ns + _IDLE_NS)
