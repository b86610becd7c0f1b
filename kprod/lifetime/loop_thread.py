# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The thread of a producer or consumer: it takes turns until its end or its death.

However it ends, it takes its last steps one by one, and none of them can keep the next from being
taken. A producer's last steps settle the remaining records: a thread that vanished with records
unsettled would leave every waiter of theirs waiting.

Its end is awaited by a separate latch: if a signal handler raises during `Thread.join`, CPython
3.11 and 3.12 treat the thread as ended.

Thread-safety: `run` belongs to the thread; everything else from any thread.
Source: aiokafka #1017, kafka-python #1543 for what happens to callers when a sender dies.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from kprod._core.clock import SystemClock
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.outcome.self_wait import enter_sender, leave_sender
from kprod.errors import KprodError
from kprod.guarded_log import guarded_logger
from kprod.threads import Thread, current_ident, start_thread

JOIN_S = 0.2  # between a thread's last statement and its end; microseconds as a rule

_logger = guarded_logger(__name__)


class LoopThread:
    """A loop around `run_once`."""

    def __init__(
        self,
        owner: str,
        run_once: Callable[[int], object],
        clock: SystemClock,
        *,
        on_death: Callable[[KprodError], object],
        last_steps: Sequence[Callable[[], object]],
        settles: Callable[[BatchResult], bool] | None = None,
    ) -> None:
        """Create it without a thread.

        Args:
            owner: Name of the thread's owner, for texts: "sender" or "consumer".
            run_once: Runs one turn; gets the time in monotonic milliseconds.
            clock: Clock for the turns' times.
            on_death: Called with the reason when no further turn is possible.
            last_steps: Functions that run in this order after the loop.
            settles: Whether this thread settles a result, which it must never wait for; None if it
                settles none.
        """
        self._owner = owner
        self._run_once = run_once
        self._clock = clock
        self._settles = settles
        self._on_death = on_death
        self._last_steps = tuple(last_steps)
        self._is_stopping = False
        self._is_forked = False
        self._ended = BatchResult("", 0)  # a latch whose waits a signal handler may interrupt
        self._is_started = False
        self._thread: Thread | None = None
        self._ident: Hashable = None  # the thread's, while it runs
        self._worker_idents: set[Hashable] = set()

    def start(self, name: str) -> None:
        """Start taking turns.

        Args:
            name: The thread's.

        Raises:
            RuntimeError: The system, or an interpreter that is ending, gives no more threads.
        """
        self._is_started = True  # before the start, since the thread may check it
        try:
            self._thread = start_thread(name, self.run)
        except BaseException:
            self._is_started = False
            raise

    def start_worker(self, name: str, run: Callable[[], object]) -> Thread:
        """Start a thread that works while this one waits for it.

        Neither may wait for a result that this thread settles, so `is_current` counts it in.

        Args:
            name: The worker's.
            run: The worker's whole work.

        Returns:
            The thread.

        Raises:
            RuntimeError: There are no more threads, or the interpreter ends.
        """
        return start_thread(name, partial(self._run_worker, run))

    def _run_worker(self, run: Callable[[], object]) -> None:
        ident = current_ident()
        try:
            self._worker_idents.add(ident)
            if self._settles is not None:
                enter_sender(self._settles)
            run()
        finally:
            leave_sender()
            self._worker_idents.discard(ident)

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this thread, or on a worker's."""
        return self._ident is not None and (current_ident() == self._ident or self.is_worker)

    @property
    def is_worker(self) -> bool:
        """Whether the caller is on a worker's thread, which may not touch this one's state."""
        return bool(self._worker_idents) and current_ident() in self._worker_idents

    @property
    def is_started(self) -> bool:
        """Whether turns are taken by a thread, not by the callers of `run_once`."""
        return self._is_started

    @property
    def has_ended(self) -> bool:
        """Whether the last steps are taken."""
        return self._ended.finished

    def stop_soon(self) -> None:
        """Run no more turns; the caller must wake the loop."""
        self._is_stopping = True

    def close_after_fork(self) -> None:
        """Record that this is a forked child, where the thread does not exist or must not run."""
        self._is_forked = True
        self._is_stopping = True
        self._ended.complete()  # a signal handler may have forked a thread that waits for the end

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait until the last steps are taken.

        Args:
            timeout_s: Seconds; negative waits without limit.

        Returns:
            False if the timeout expired.
        """
        if not self._ended.wait_finished(timeout_s):
            return False
        if self._thread is not None and not self.is_current:
            self._thread.join(JOIN_S)
        return True

    def run(self) -> None:
        """Run turns until stopped."""
        try:
            self._ident = current_ident()
            if self._settles is not None:
                enter_sender(self._settles)
            while not self._is_stopping:
                self._run_once(self._clock.now_ms())
        except BaseException as error:  # noqa: BLE001 - callers must hear of it
            if not self._is_forked:
                self._die(error)
        finally:
            if not self._is_forked:
                self.finish()
            leave_sender()
            self._ident = None  # another thread may get it

    def finish(self) -> None:
        """Run the last steps, whatever each raises, and wake the threads that wait for the end."""
        try:
            for step in self._last_steps:
                try:
                    step()
                except BaseException:
                    _logger.exception("A step of the %s's end failed", self._owner)
        finally:
            self._ended.complete()

    def _die(self, error: BaseException) -> None:
        # Rejecting comes first: a record accepted after the last steps would never be settled.
        cause = KprodError(
            f"the {self._owner} thread died of {type(error).__name__}: {_text_of(error)}"
        )
        cause.__cause__ = error
        self._on_death(cause)
        _logger.critical("The %s died; it can do nothing any more", self._owner, exc_info=error)


def _text_of(error: BaseException) -> str:
    """The error's own text, if its class, which may be the application's, can make one."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - the application's code
        return "its text cannot be made"
