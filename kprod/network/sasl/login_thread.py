"""The thread for the parts of a login that may block: tokens, passwords, Kerberos, derivations.

All of it may be the application's code or a server's answer, which may take long, raise or never
come. So it runs here, with no lock held, and its outcome is taken by the client's loop like a name
that was resolved. `close` waits for none of it.

Invariants.
    Jobs run one after another, in the order of their arrival.
    Each outcome is told at most once, on the client's thread; after `close` none is.

Thread-safety: any thread. `_lock` guards `_jobs`, `_is_running` and `_is_closed`.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kprod.error_text import error_text
from kprod.errors import AuthenticationFailed, without_frames

Job = Callable[[], Any]
OnDone = Callable[[Any, AuthenticationFailed | None], None]
"""Called with the job's result, or with the error that ended it."""


class LoginJobs(Protocol):
    """Runs jobs.

    Attributes:
        outcomes: Each to be called once, on the client's thread.
    """

    outcomes: deque[Callable[[], None]]

    def run(self, job: Job, on_done: OnDone) -> None:
        """Run a job soon; never blocks.

        Args:
            job: May block and raise.
            on_done: Told its outcome by way of `outcomes`.
        """

    def close(self) -> None:
        """Discard all jobs; a running one ends by itself."""


class LoginThread:
    """Runs jobs on one daemon thread, which lives while there are any."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        """Create an executor without a thread.

        Args:
            wakeup: Called on the thread when there is an outcome.
        """
        self.outcomes: deque[Callable[[], None]] = deque()
        self._wakeup = wakeup
        self._lock = threading.RLock()  # guards: _jobs, _is_running, _is_closed
        self._jobs: deque[tuple[Job, OnDone]] = deque()
        self._is_running = False
        self._is_closed = False

    def run(self, job: Job, on_done: OnDone) -> None:
        """See `LoginJobs`."""
        with self._lock:
            if self._is_closed:
                return
            self._jobs.append((job, on_done))
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._work, name="kprod-login", daemon=True).start()
        except RuntimeError as error:  # no more threads, or an interpreter that is ending
            self._fail_all(error)

    def close(self) -> None:
        """See `LoginJobs`."""
        with self._lock:
            self._is_closed = True
            self._jobs.clear()
            self.outcomes.clear()
            self._wakeup = _ignore  # a running job must not keep the client alive

    def _work(self) -> None:
        while (next_one := self._next()) is not None:
            outcome = _outcome(*next_one)
            with self._lock:
                if not self._is_closed:
                    self.outcomes.append(outcome)
                wakeup = self._wakeup
            wakeup()

    def _fail_all(self, error: RuntimeError) -> None:
        """End the jobs that no thread will run; on the client's thread they could block it."""
        with self._lock:
            jobs, self._jobs = self._jobs, deque()
            self._is_running = False
            failure = as_failure(error, "no thread could be started for the login:")
            self.outcomes.extend(partial(on_done, None, failure) for _, on_done in jobs)
        self._wakeup()

    def _next(self) -> tuple[Job, OnDone] | None:
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            self._is_running = False
            return None


class InlineJobs:
    """Runs each job at once, where there are no threads; its outcome is told a turn later."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        """Create an executor that needs no threads.

        Args:
            wakeup: Ends the client's sleep.
        """
        self.outcomes: deque[Callable[[], None]] = deque()
        self._wakeup = wakeup

    def run(self, job: Job, on_done: OnDone) -> None:
        """See `LoginJobs`."""
        self.outcomes.append(_outcome(job, on_done))
        self._wakeup()

    def close(self) -> None:
        """See `LoginJobs`."""
        self.outcomes.clear()


def _outcome(job: Job, on_done: OnDone) -> Callable[[], None]:
    try:
        found = job()
    except BaseException as error:  # noqa: BLE001 - application code, on a thread of ours
        failure = without_frames(as_failure(error, "the login failed:"))  # frames hold passwords
        return lambda: on_done(None, failure)
    return lambda: on_done(found, None)


def as_failure(error: BaseException, said: str) -> AuthenticationFailed:
    """Put an error of a job into words, on the thread that met it: its text may run any code.

    Args:
        error: An error of the application, a library or kprod.
        said: The text's beginning.

    Returns:
        The error itself if it is kprod's own; else one that names its kind and text.
    """
    if type(error) is AuthenticationFailed:
        return error
    failed = AuthenticationFailed(f"{said} {error_text(error)}")
    failed.__cause__ = error
    return failed


def _ignore() -> None:
    """Do nothing: the client is closed."""
