"""An event loop of asyncio in virtual time, and a caller whose operations are its tasks.

The loop is asyncio's own; only what it sleeps in is the simulation's. It runs in an actor, so
several loops, sender threads and other threads take turns in one system thread.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.sim.scheduler import MS, Actor, Scheduler

_IDLE_NS = 3_600_000 * MS
_NS_PER_S = 1_000_000_000


class SimLoop(asyncio.BaseEventLoop):
    """asyncio's loop, which sleeps in virtual time.

    Args:
        scheduler: Scheduler of the run.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._selector = self  # the loop asks it for ready sockets
        self._sleeper: Actor | None = None
        self._is_woken = False

    def time(self) -> float:
        """Return virtual seconds."""
        return self._scheduler.now_ns / _NS_PER_S

    def select(self, timeout: float | None) -> list[object]:
        """Sleep until a callback is due or another thread has added one."""
        if not self._is_woken and timeout != 0:
            self._sleeper = self._scheduler.current
            assert self._sleeper is not None, "the loop runs outside of an actor"
            # Rounded up: a timer that is looked at too early would be looked at for ever.
            delay_ns = _IDLE_NS if timeout is None else int(timeout * _NS_PER_S) + 1
            self._sleeper.sleep(self._scheduler.now_ns + delay_ns)
            self._sleeper = None
        self._is_woken = False
        return []

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: no descriptor is watched."""

    def _write_to_self(self) -> None:
        self._is_woken = True
        if self._sleeper is not None:
            self._sleeper.wake()


class TaskCaller:
    """Makes calls as tasks of one event loop.

    Args:
        scheduler: Scheduler of the run.
        on_error: Told of what a task or a callback of the loop raises.
    """

    def __init__(self, scheduler: Scheduler, on_error: Callable[[BaseException], object]) -> None:
        self._loop = SimLoop(scheduler)
        self._on_error = on_error
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order
        self._is_ending = False
        self._actor = Actor(scheduler, self._run)

    @property
    def is_over(self) -> bool:
        """Whether every call has returned; the loop runs until `end`."""
        return not self._tasks

    @property
    def number(self) -> int:
        """The number of the actor that the loop runs in."""
        return self._actor.number

    def add(self, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start a call, beside those before it."""
        self._loop.call_soon_threadsafe(self._begin, call)

    def end(self) -> None:
        """Start no call after those that were added."""
        self._is_ending = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_if_idle)

    def cancel_one(self, choice: int) -> bool:
        """Cancel a call that has not returned; False if there is none. Called inside the loop."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task(self._loop)]
        if not tasks:
            return False
        tasks[choice % len(tasks)].cancel()
        return True

    def _begin(self, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        task = self._loop.create_task(call())
        self._tasks[task] = None
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        self._stop_if_idle()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)

    def _stop_if_idle(self) -> None:
        if self._is_ending and not self._tasks:
            self._loop.stop()

    def _run(self) -> None:
        self._loop.set_exception_handler(self._take_error)
        try:
            self._loop.run_forever()
        finally:
            for task in self._tasks:  # a run that was given up leaves some
                task.get_coro().close()
            self._loop.close()

    def _take_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._on_error(context.get("exception") or AssertionError(context["message"]))
