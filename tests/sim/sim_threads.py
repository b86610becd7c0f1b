"""Threads of the simulation: each is an actor, and a lock that must wait gives way to the others.

With drawn chance an actor gives way before it takes a lock, which is where the system changes
threads. What it cannot show is two threads in the middle of compiled code.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from types import TracebackType

from tests.sim.draw import Draw
from tests.sim.scheduler import MS, Actor, Scheduler

_NS_PER_S = 1_000_000_000
_CHANCE_OF_SWITCH = 0.1
_NEVER_NS = 1 << 60


class SimLock:
    """A lock in virtual time; waiting threads are served in a drawn order."""

    def __init__(self, threads: "SimThreads") -> None:
        self._threads = threads
        self._is_held = False
        self._waiting: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See `kprod.threads.Lock.acquire`."""
        scheduler = self._threads.scheduler
        actor = scheduler.current
        if actor is not None and blocking and self._threads.draw.chance(_CHANCE_OF_SWITCH):
            actor.sleep(scheduler.now_ns)
        end_ns = _NEVER_NS if timeout < 0 else scheduler.now_ns + round(timeout * _NS_PER_S)
        while self._is_held:
            if not blocking or scheduler.now_ns >= end_ns:
                return False
            if actor is None:
                raise AssertionError("an event of the simulation would wait for a lock")
            self._threads.waits += 1
            self._waiting.append(actor)
            actor.sleep(end_ns)
            if actor in self._waiting:
                self._waiting.remove(actor)
        self._is_held = True
        return True

    def release(self) -> None:
        """See `kprod.threads.Lock.release`."""
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False
        if self._waiting:
            self._waiting.pop(self._threads.draw.below(len(self._waiting))).wake()

    def __enter__(self) -> bool:
        self.acquire()
        threads = self._threads
        threads.held[threads.current()] += 1
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        self._threads.held[self._threads.current()] -= 1
        self.release()


class SimThread:
    """An actor that may be joined."""

    def __init__(self, scheduler: Scheduler, run: Callable[[], object]) -> None:
        self._scheduler = scheduler
        self.actor = Actor(scheduler, run)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the body has returned."""
        end_ns = self._scheduler.now_ns + round((1e6 if timeout is None else timeout) * _NS_PER_S)
        caller = self._scheduler.current
        while caller is not None and not self.actor.is_over and self._scheduler.now_ns < end_ns:
            caller.sleep(min(self._scheduler.now_ns + MS, end_ns))


class SimThreads:
    """See `kprod.threads.Threads`.

    Args:
        scheduler: Scheduler of the run.
        seed: Seed of the run.
        on_error: Told of what ends a thread.

    Attributes:
        waits: How often an actor waited for a lock.
        held: How many locks each actor holds; a lock that one thread takes and another gives back
            is a signal, and not counted.
    """

    def __init__(
        self, scheduler: Scheduler, seed: int, on_error: Callable[[BaseException], object]
    ) -> None:
        self.scheduler = scheduler
        self._on_error = on_error
        self.draw = Draw(seed, "threads")
        self.waits = 0
        self.held: Counter[Hashable] = Counter()

    def start(self, name: str, run: Callable[[], object]) -> SimThread:  # noqa: ARG002
        """See `kprod.threads.Threads.start`."""

        def guarded() -> None:
            try:
                run()
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread is over
                self._on_error(error)

        return SimThread(self.scheduler, guarded)

    def current(self) -> Hashable:
        """See `kprod.threads.Threads.current`."""
        actor = self.scheduler.current
        return "hub" if actor is None else actor.number

    def make_lock(self) -> SimLock:
        """See `kprod.threads.Threads.make_lock`."""
        return SimLock(self)
