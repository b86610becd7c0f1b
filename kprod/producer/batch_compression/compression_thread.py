"""A thread that compresses batches while the sender compresses others.

Between two rounds it sleeps, and refers to no batch. Application code may run on it (a finalizer, a
profiler's function), may raise, and may even fork: the thread may end at any point, and the sender
sees that.

Thread-safety: `begin`, `wait` and `stop` one thread at a time, the sender's.
"""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprod.producer.batch_compression.batch_compressor import BatchCompressor
from kprod.threads import make_lock

if TYPE_CHECKING:
    from kprod.threads import Thread

Work = Callable[[BatchCompressor], object]
"""Compresses batches of one round until none is left."""

JOIN_S = 0.2  # between a thread's last statement and its end; microseconds as a rule
_CHECK_S = 0.2  # interval of the checks whether the thread still runs


class CompressionThread:
    """One such thread, from its start to `stop`.

    Attributes:
        has_ended: Whether it can do nothing any more.
    """

    __slots__ = ("_begins", "_compressor", "_done", "_thread", "_work", "has_ended")

    def __init__(self, compressor: BatchCompressor) -> None:
        """Create it without a thread; the thread runs `run` and nothing else.

        Args:
            compressor: The thread's own.
        """
        self._compressor = compressor
        self._work: Work | None = None
        # Both are held; one thread releases one of them, for the other thread to acquire.
        self._begins, self._done = make_lock(), make_lock()
        self._begins.acquire()
        self._done.acquire()
        self._thread: Thread | None = None
        self.has_ended = False

    def start(self, start_thread: "Callable[[Callable[[], object]], Thread]") -> None:
        """Start the thread.

        Args:
            start_thread: Starts a thread that runs a function.

        Raises:
            RuntimeError: There are no more threads, or the interpreter ends.
        """
        self._thread = start_thread(self.run)

    def begin(self, work: Work) -> None:
        """Start to work; `wait` must follow.

        Args:
            work: Must not raise.
        """
        self._work = work
        self._begins.release()

    def wait(self) -> None:
        """Wait until the work is done, or the thread has ended; work not begun is withdrawn.

        A profiler's function may end a thread before `run`, so that it never begins.
        """
        if self._begins.acquire(blocking=False):
            self._work = None
            return
        while not self._done.acquire(timeout=_CHECK_S) and not self.has_ended:
            pass

    def stop(self) -> None:
        """End the thread, which does not work."""
        self.stop_soon()
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def stop_soon(self) -> None:
        """End the thread after its work, in a forked child whose only thread it may be."""
        self._work = None
        self.has_ended = True  # the child of a sender that forks has no such thread to wait for
        with contextlib.suppress(RuntimeError):  # `begin` has woken it, and it has not begun yet
            self._begins.release()

    def run(self) -> None:
        """Work whenever asked to, until stopped."""
        try:
            while True:
                self._begins.acquire()
                work = self._work
                if work is None:
                    return
                self._work = None
                work(self._compressor)
                del work  # it refers to the batches of the round
                self._done.release()
        finally:
            self.has_ended = True
            self._done.release()
