"""Syncs files in the background, so that a slow disk does not hold up the broker's thread.

Use. A store's `sync_later(names, done)` takes hold of the files now and returns; when all of them
are synced, or one of them could not be, `done` is called on the broker's thread, in a later step:

    store.sync_later(["00000000000000000000.log", None], done)  # None: the directory's names

Until `done` is called without an error nothing may rely on the bytes being there after a crash: it
is `done` that moves a recovery point, or lets a replacement of segments continue. A file may be
renamed or removed meanwhile; its bytes are synced all the same. `store.wait_for_syncs()` blocks
until all that was handed over has ended and its `done` was called.

Rules.
    The thread sees descriptors of its own and no object of the broker.
    The files of a job are synced in order; the first failure ends the rest of that job. No
    failed sync is tried again: the operating system may have dropped the bytes.
    A sync that must not overtake a failure in the background waits for it first: the error of a
    file is reported once, to the first sync that asks.

Thread-safety: the broker's thread; `ThreadSyncer` has one of its own.
Source: kprod's own; Kafka's `flush-log` task of a roll for the background flush.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

JOBS_WAITING_MAX = 64
"""Jobs that wait at most; each has a few descriptors. Past it `submit` blocks."""


class Sync(Protocol):
    """One file or directory, held until it is synced."""

    def run(self) -> None:
        """Sync it and close its descriptor; called once, on any thread.

        Raises:
            OSError: It cannot be synced; its descriptor is closed all the same.
        """

    def discard(self) -> None:
        """Close its descriptor without a sync."""


Done = Callable[[OSError | None], object]
"""Gets the error that ended the job, or None."""


class Syncer(Protocol):
    """Runs jobs, each a sequence of syncs."""

    def start(self, wake: Callable[[], None]) -> None:
        """Say how the broker's thread is made to call `deliver`; before the first job.

        Args:
            wake: Makes it do so soon; called from any thread.
        """

    def submit(self, syncs: Sequence[Sync], done: Done) -> None:
        """Hand a job over.

        Args:
            syncs: In this order.
            done: Called once on the broker's thread, now or in a later step.
        """

    def deliver(self) -> None:
        """Call `done` of all jobs that have ended."""

    def wait(self) -> None:
        """Block until all jobs have ended, and call `done` of each."""

    def close(self) -> None:
        """Discard all waiting jobs; no `done` is called any more."""


class InlineSyncer:
    """Syncs at once, in the caller's thread: for tests and simulations, which must repeat."""

    __slots__ = ()

    def start(self, wake: Callable[[], None]) -> None:
        """Do nothing: there is no thread."""

    def submit(self, syncs: Sequence[Sync], done: Done) -> None:
        """Run a job, and call `done`."""
        done(_run(syncs))

    def deliver(self) -> None:
        """Do nothing: nothing waits."""

    def wait(self) -> None:
        """Do nothing: nothing waits."""

    def close(self) -> None:
        """Do nothing: nothing waits."""


class _Job(NamedTuple):
    syncs: Sequence[Sync]
    done: Done


class ThreadSyncer:
    """Syncs in a thread of its own, which the first job starts.

    Invariants.
        Every job's syncs are run or discarded, once; its `done` is called once, unless `close`
        comes first.
    """

    __slots__ = ("_changed", "_ended", "_is_closed", "_is_running", "_thread", "_waiting", "_wake")

    def __init__(self) -> None:
        """Create a syncer without a thread."""
        self._changed = threading.Condition()  # guards: _waiting, _ended, _is_running, _is_closed
        self._waiting: deque[_Job] = deque()
        self._ended: deque[tuple[Done, OSError | None]] = deque()
        self._is_running = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._wake: Callable[[], None] | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Say how the broker's thread is made to call `deliver`."""
        self._wake = wake

    def submit(self, syncs: Sequence[Sync], done: Done) -> None:
        """Hand a job over; blocks while too many wait.

        Args:
            syncs: In this order.
            done: Called once on the broker's thread, in a later step; at once where no thread can
                be started.
        """
        if not self._has_thread():
            done(_run(syncs))
            return
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < JOBS_WAITING_MAX)
            self._waiting.append(_Job(syncs, done))
            self._changed.notify_all()

    def deliver(self) -> None:
        """Call `done` of all jobs that have ended."""
        while self._ended:
            done, error = self._ended.popleft()
            done(error)

    def wait(self) -> None:
        """Block until all jobs have ended, and call `done` of each."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_running)
        self.deliver()

    def close(self) -> None:
        """Discard all waiting jobs and end the thread; idempotent."""
        with self._changed:
            self._is_closed = True
            given_up = [sync for job in self._waiting for sync in job.syncs]
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._ended.clear()
        for sync in given_up:
            sync.discard()

    def _has_thread(self) -> bool:
        if self._thread is not None:
            return True
        thread = threading.Thread(target=self._work, name="kprod-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process has as many threads as it may
            return False
        self._thread = thread
        return True

    def _work(self) -> None:
        while (job := self._next()) is not None:
            error = _run(job.syncs)
            with self._changed:
                self._ended.append((job.done, error))
                self._is_running = False
                self._changed.notify_all()
            if self._wake is not None:
                self._wake()

    def _next(self) -> _Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                return None
            self._is_running = True
            self._changed.notify_all()
            return self._waiting.popleft()


def _run(syncs: Sequence[Sync]) -> OSError | None:
    failed: OSError | None = None
    for sync in syncs:
        if failed is not None:
            sync.discard()
            continue
        try:
            sync.run()
        except OSError as error:
            failed = error
    return failed
