"""Flush, close, fork, and the death of the sender: everything that ends a producer or waits for it.

Closing has two halves. The first accepts no more records and lets the sender send the rest; an
exception from a signal handler may leave it, and it can be entered again, since it only waits. The
second stops the sender, which then settles the remaining records.

Invariants.
    No record fails for it before the second half, which settles every record. The returned count is
    taken after the wait.

Thread-safety: any thread. There is no lock: each step may run twice, or in two threads at once.
Source: Kafka KafkaProducer.close (clients 4.3.1), KAFKA-4235; kprod's departures 21 and 22.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.send_path import SendPath
from kprod.clock import Deadline, SystemClock
from kprod.cluster.metadata import Metadata
from kprod.errors import ClosedError, KprodError, Persistence, own_copy
from kprod.guarded_log import guarded_logger
from kprod.lifetime.loop_thread import LoopThread
from kprod.metrics.state_log import Event, StateLog
from kprod.network.client import NetworkClient
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.flush import Covered, Flush, await_settled, undelivered
from kprod.producer.sender import Sender

# for the last turn and the closing steps; close may exceed its timeout by half a second
CLOSE_GRACE_S = 0.3
CALL_SLICE_S = 0.2  # interval of the checks whether the sender still runs
_CLOSED_BEFORE = "the producer was closed before the record was acknowledged"

_logger = guarded_logger(__name__)


class ClosingParts(NamedTuple):
    """The parts of a producer that closing uses."""

    clock: SystemClock
    metadata: Metadata
    pool: ChunkPool
    accumulator: RecordAccumulator
    client: NetworkClient
    sender: Sender


class Closing:
    """Closes one producer.

    Attributes:
        thread: Runs the sender's turns.
        flush: Flushes the producer; also used without closing.
    """

    __slots__ = ("_cause", "_client_id", "_engine", "_path", "_state_log", "flush", "thread")

    def __init__(
        self,
        path: SendPath,
        engine: ClosingParts,
        *,
        client_id: str,
        state_log: StateLog,
        last_steps: Sequence[Callable[[], object]],
    ) -> None:
        """Create the shutdown of an open producer.

        Args:
            path: The send path; accepts records until its `closed_error` is set.
            engine: The producer's parts.
            client_id: Client id for log lines and the thread's name.
            state_log: Logs the start and the end of closing.
            last_steps: Functions that the sender's thread runs after everything is settled.
        """
        self._path = path
        self._engine = engine
        self._client_id = client_id
        self._state_log = state_log
        self._cause: KprodError | None = None
        self.thread: LoopThread = LoopThread(
            "sender",
            engine.sender.run_once,
            engine.clock,
            settles=engine.accumulator.holds,
            on_death=self._die,
            last_steps=(
                self._abort,
                engine.sender.close,
                engine.client.close_after_fork,  # needed if the thread died
                self._wake_no_more,
                engine.sender.make_calls,
                self._abandon,
                partial(state_log.note, Event.CLOSED),
                *last_steps,
            ),
        )
        self.flush: Flush = Flush(engine.accumulator, engine.client, self.thread, engine.clock)

    @property
    def state(self) -> str:
        """The state for people: open, closing or closed."""
        if self.thread.has_ended:
            return "closed"
        return "open" if self._path.closed_error is None else "closing"

    def start(self) -> None:
        """Start the thread that runs the sender's turns.

        Raises:
            RuntimeError: No thread can be started; the producer is closed.
        """
        try:
            self.thread.start(f"kprod-sender-{self._client_id}")
        except BaseException as error:
            self._path.closed_error = closed_error
            self.thread.stop_soon()
            self._engine.client.wakeup()
            # otherwise the thread may have started, and ends by itself
            if isinstance(error, Exception):
                self.thread.finish()
            raise

    def call(self, count: Callable[[], int]) -> int:
        """Make the sender's thread call a function between two turns, and wait for the result.

        Args:
            count: A function that uses state of the sender.

        Returns:
            Its result; 0 if the sender ended before.

        Raises:
            KprodError: The caller is on a thread that the sender waits for.
        """
        if self.thread.is_worker:
            raise KprodError("purge() on a thread that compresses batches would wait for itself")
        if not self.thread.is_started or self.thread.is_current:
            return count()
        made = BatchResult("", 0)  # a latch
        counts: list[int] = []

        def call() -> None:
            try:
                counts.append(count())
            finally:
                made.complete()

        self._engine.sender.call_soon(call)
        self._engine.client.wakeup()
        # The sender may end now, without another turn.
        while not made.wait_finished(CALL_SLICE_S) and not self.thread.has_ended:
            pass
        return sum(counts)

    def close_soon(self) -> Callable[[], int]:
        """See `ProducerEngine.close_soon`."""
        is_first = self._path.closed_error is None
        covered = self._reject_more()
        self.flush.flush_soon()
        self._note_closing(is_first=is_first)
        return partial(undelivered, covered)

    def close(self, timeout: float | None) -> int:
        """See `Producer.close`."""
        deadline = self.flush.deadline(timeout)
        is_first = self._path.closed_error is None
        covered = self._reject_more()
        waits = self.thread.is_started and not self.thread.is_current
        if waits:
            self.flush.flush_soon()
        self._note_closing(is_first=is_first)
        if waits:
            await_settled(covered, deadline)
        self._end(deadline)
        return undelivered(covered)

    def close_after_fork(self, error: KprodError) -> None:
        """Settle the futures and close the inherited sockets, in a forked child.

        Args:
            error: The error of the unsettled records.
        """
        self.thread.close_after_fork()
        error.persistence = Persistence.POSSIBLY_PERSISTED
        for result, _ in self._engine.accumulator.incomplete():
            result.abandon(error)
        self._wake_no_more()
        self._engine.client.close_after_fork()
        self._engine.sender.close_after_fork()

    def _reject_more(self) -> Covered:
        """Accept no more records; returns the results to settle."""
        if self._path.closed_error is None:
            self._path.closed_error = closed_error
        self._engine.metadata.close()
        self._engine.pool.close()
        return self._engine.accumulator.incomplete()

    def _note_closing(self, *, is_first: bool) -> None:
        """Log the line, after the steps that must precede a signal's exception."""
        if is_first:
            self._state_log.note(Event.CLOSING)

    def _end(self, deadline: Deadline) -> None:
        """Stop the sender, and wait a little longer than the caller's timeout."""
        self.thread.stop_soon()
        self._engine.client.wakeup()
        if not self.thread.is_started:
            if not self.thread.has_ended:
                self.thread.finish()
            return
        if self.thread.is_current:
            return
        left_s = deadline.wait_s()
        if not self.thread.wait_ended(left_s if left_s < 0 else left_s + CLOSE_GRACE_S):
            _logger.warning(
                "%s: a delivery callback or the compression of a batch has not returned; the sender"
                " ends after it",
                self._client_id,
            )

    # On the sender's thread, at its end.

    def _die(self, cause: KprodError) -> None:
        self._cause = cause
        self._path.closed_error = partial(own_copy, cause)

    def _abort(self) -> None:
        # the thread may have died before it could create its error
        if self._path.closed_error is None:
            self._path.closed_error = closed_error
        self._engine.sender.abort(self._cause or ClosedError(_CLOSED_BEFORE))

    def _wake_no_more(self) -> None:
        """Drop the wakeup descriptor of sending threads; the last reference closes it."""
        self._path.wake = None

    def _abandon(self) -> None:
        """Settle the records that a failed abort has left, so that no thread waits forever."""
        for result, _ in self._engine.accumulator.incomplete():
            error = own_copy(self._cause or ClosedError(_CLOSED_BEFORE))
            error.persistence = Persistence.POSSIBLY_PERSISTED
            result.complete(error=error)


def closed_error() -> KprodError:
    """Create the error for a send after the close.

    Returns:
        A new error for each caller.
    """
    return ClosedError("the producer is closed; make another")
