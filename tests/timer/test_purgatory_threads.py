"""The purgatory across threads, on a `SystemTimer`."""

import sys
import threading
from collections.abc import Iterator

import pytest

from kprod.clock import SystemClock
from kprod.timer import DelayedOperation, Purgatory, SystemTimer, Timer

LIMIT_S = 10.0
"""Ends a test as a failure; nothing waits for it otherwise."""


class WriterFirstLock:
    """A read-write lock in which a waiting writer keeps new readers out."""

    def __init__(self) -> None:
        """Start free."""
        self.changed = threading.Condition()
        self.readers = 0
        self.writer_waits = False
        self.writer_wants = threading.Event()

    def read(self) -> bool:
        """Become a reader; False when that takes so long that there must be a deadlock."""
        with self.changed:
            if not self.changed.wait_for(lambda: not self.writer_waits, LIMIT_S / 4):
                return False
            self.readers += 1
        return True

    def done_reading(self) -> None:
        """Be a reader no more."""
        with self.changed:
            self.readers -= 1
            self.changed.notify_all()

    def write(self) -> None:
        """Be the writer, for a moment."""
        with self.changed:
            self.writer_waits = True
            self.writer_wants.set()
            self.changed.wait_for(lambda: self.readers == 0, LIMIT_S)
            self.writer_waits = False
            self.changed.notify_all()


class AnnouncingLock:
    """A re-entrant lock that says when a thread is about to wait for it."""

    def __init__(self, contended: threading.Event) -> None:
        """Start free."""
        self.lock = threading.RLock()
        self.contended = contended

    def __enter__(self) -> bool:
        """Take it; announce it first if that means to wait."""
        if not self.lock.acquire(blocking=False):
            self.contended.set()
            self.lock.acquire()
        return True

    def __exit__(self, *exception: object) -> None:
        """Give it back."""
        self.lock.release()


class Reading(DelayedOperation):
    """Needs the state's read lock for each try."""

    __slots__ = ("deadlocked", "reached", "state")

    def __init__(self, state: WriterFirstLock, reached: threading.Event) -> None:
        """Never complete by itself."""
        super().__init__(60_000, lock=AnnouncingLock(reached))
        self.state = state
        self.reached = reached
        self.deadlocked = False

    def try_complete(self) -> bool:
        """Read the state."""
        if threading.current_thread().name == "checker":
            self.reached.set()
        if not self.state.read():
            self.deadlocked = True
            return False
        self.state.done_reading()
        return False

    def on_complete(self) -> None:
        """Do nothing."""


class HeldReading(Reading):
    """Tried by a thread that is a reader already, which may read again."""

    __slots__ = ()

    def try_complete(self) -> bool:
        """Read the state, unless this thread does so already."""
        if threading.current_thread().name == "watcher":
            return False
        return super().try_complete()


def test_three_threads_do_not_deadlock() -> None:
    """A watcher that reads, a writer that waits for it, a checker that must read behind the writer.

    The watcher is a reader and registers the operation. The writer then waits for it, and keeps new
    readers out. The checker finds the operation: if it could take the operation's lock, it would
    wait in the condition for the writer, and the watcher, in its second try, for the checker.
    """
    state, reached = WriterFirstLock(), threading.Event()
    operation = HeldReading(state, reached)
    purgatory: Purgatory[Reading] = Purgatory("test", Timer(0))
    writer = threading.Thread(target=state.write, name="writer")
    checker = threading.Thread(target=purgatory.check_and_complete, args=("first",), name="checker")
    met: list[bool] = []

    def keys() -> Iterator[str]:
        """Between the registration and the second try, let the others come as far as they can."""
        yield "first"
        writer.start()
        met.append(state.writer_wants.wait(LIMIT_S))
        checker.start()
        met.append(reached.wait(LIMIT_S))

    def watch() -> None:
        state.read()
        purgatory.try_complete_or_watch(operation, keys())
        state.done_reading()

    watcher = threading.Thread(target=watch, name="watcher")
    watcher.start()
    for thread in (watcher, writer, checker):
        thread.join(LIMIT_S)
    assert met == [True, True]
    assert not any(thread.is_alive() for thread in (watcher, writer, checker))
    assert not operation.deadlocked
    operation.force_complete()


class Counting(DelayedOperation):
    """Completes when its flag is set; counts how often it was completed."""

    __slots__ = ("completions", "done", "expirations", "may_complete")

    def __init__(self, delay_ms: int, done: threading.Semaphore) -> None:
        """Start uncompleted."""
        super().__init__(delay_ms)
        self.done = done
        self.may_complete = False
        self.completions = 0
        self.expirations = 0

    def try_complete(self) -> bool:
        """Look at the flag."""
        return self.may_complete and self.force_complete()

    def on_complete(self) -> None:
        """Count."""
        self.completions += 1
        self.done.release()

    def on_expire(self) -> None:
        """Count."""
        self.expirations += 1


@pytest.mark.slow
def test_each_operation_completes_once() -> None:
    """Watchers, checkers, forcers and expiry race for each operation; one of them completes it."""
    timer = SystemTimer(SystemClock())
    purgatory: Purgatory[Counting] = Purgatory("test", timer, purge_interval=50)
    done = threading.Semaphore(0)
    operations = [[Counting((thread + n) % 4, done) for n in range(100)] for thread in range(4)]
    start = threading.Barrier(8)

    def watch(mine: list[Counting]) -> None:
        start.wait()
        for number, operation in enumerate(mine):
            purgatory.try_complete_or_watch(operation, [number % 7, "all", number])

    def complete(theirs: list[Counting]) -> None:
        start.wait()
        for number, operation in enumerate(theirs):
            operation.may_complete = number % 3 > 0
            purgatory.check_and_complete(number % 7)
            if number % 5 == 0:
                operation.force_complete()

    threads = [threading.Thread(target=watch, args=(each,)) for each in operations]
    threads += [threading.Thread(target=complete, args=(each,)) for each in operations]
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        arrived = [done.acquire(timeout=LIMIT_S) for _ in range(400)]
        for thread in threads:
            thread.join(LIMIT_S)
    finally:
        sys.setswitchinterval(before_s)
        purgatory.close()
        timer.shutdown()
    assert all(arrived)
    assert {operation.completions for each in operations for operation in each} == {1}
    purgatory.purge()
    assert (purgatory.watched_count, purgatory.delayed_count, purgatory.key_count) == (0, 0, 0)


def test_operation_on_a_timer_that_was_shut_down_is_not_kept() -> None:
    """Somebody else's shutdown is an error of the call, and no list holds the operation."""
    timer = SystemTimer(SystemClock())
    purgatory: Purgatory[Counting] = Purgatory("test", timer)
    timer.shutdown()
    with pytest.raises(Exception, match="shut down"):
        purgatory.try_complete_or_watch(Counting(5, threading.Semaphore(0)), ["a"])
    assert (purgatory.watched_count, purgatory.delayed_count) == (0, 0)
