"""The threads of the client's side: the one place that starts them, names them and makes locks.

In production they are the operating system's. A simulation has another kind, of which one runs at a
time and which wait in virtual time: it calls `use` before it makes its first producer. Nothing else
may differ, so the locks of production are the system's own objects, and what makes them is a
built-in function.

Exceptions: the locks of purgatories (`kprod._core.timer.watch_lists`), which are never held during
a wait, the lock of the direct path of reads, which a simulation does not open, and parts of the
I/O, such as the resolver's threads, which a simulation replaces as a whole. Nothing here needs a
thread-local variable.

Thread-safety: any thread; `use` before and after everything else.
"""

import _thread  # noqa: PLC2701 - its lock is made without a call of Python code
import threading
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Protocol

from kprod._core import threads as compiled


class Lock(Protocol):
    """A lock that any thread may release, as `threading.Lock` makes."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002
        """Wait at most `timeout` seconds, or without end if that is −1; whether it is held now."""

    def release(self) -> None:
        """Release the lock.

        Raises:
            RuntimeError: Nobody holds it.
        """

    def __enter__(self) -> bool:
        """Acquire."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
        /,
    ) -> None:
        """Release."""


class Thread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, at most `timeout` seconds."""


class Threads(Protocol):
    """A kind of threads."""

    def start(self, name: str, run: Callable[[], object]) -> Thread:
        """Start a thread that keeps no process from ending.

        Args:
            name: The thread's name, for people.
            run: Function that the thread runs.

        Returns:
            The thread, which may have ended already.

        Raises:
            RuntimeError: There are no more threads, or the interpreter ends.
        """

    def current(self) -> Hashable:
        """Return what the calling thread has and no other that runs; reused when it has ended."""

    def make_lock(self) -> Lock:
        """Create a lock that is not held."""


class SystemThreads:
    """The operating system's."""

    current = staticmethod(_thread.get_ident)
    make_lock = staticmethod(_thread.allocate_lock)

    @staticmethod
    def start(name: str, run: Callable[[], object]) -> Thread:
        """See `Threads.start`."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread


SYSTEM = SystemThreads()
_used: Threads = SYSTEM


def use(threads: Threads) -> None:
    """Have another kind of threads, in the whole process.

    Args:
        threads: Threads of everything created from now on. `SYSTEM` is production's.
    """
    global _used  # noqa: PLW0603 - futures know no producer that could tell them
    _used = threads
    compiled.register(lock_maker=threads.make_lock, ident_of_current=threads.current)


def start_thread(name: str, run: Callable[[], object]) -> Thread:
    """See `Threads.start`."""
    return _used.start(name, run)


def current_ident() -> Hashable:
    """See `Threads.current`."""
    return _used.current()


def make_lock() -> Lock:
    """See `Threads.make_lock`."""
    return _used.make_lock()
