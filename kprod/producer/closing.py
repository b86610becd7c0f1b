"""Everything that ends, or waits for, what a producer has taken: flush, close, fork, death.

Closing has two halves. The first takes no more records and lets the sender send what there is; it
can be left by an exception out of a signal handler and entered again, since it only waits. The
second stops the sender, which then settles the remaining records.

Invariants.
    Nothing is given up before the second half begins, and then every record is settled.
    What a caller is told was counted after it had waited.

Thread-safety: any thread. No lock: each step may be taken twice, and by two at once.
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

CLOSE_GRACE_S = 0.3  # for the last turn and the last steps; close has half a second past its time
CALL_SLICE_S = 0.2  # between two looks whether the sender is still there
_CLOSED_BEFORE = "the producer was closed before the record was acknowledged"

_logger = guarded_logger(__name__)


class ClosingParts(NamedTuple):
    """What a producer is made of, as far as its end is concerned."""

    clock: SystemClock
    metadata: Metadata
    pool: ChunkPool
    accumulator: RecordAccumulator
    client: NetworkClient
    sender: Sender


class Closing:
    """Ends one producer.

    Attributes:
        thread: Takes the sender's turns.
        flush: Flushes, also before the end.
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
        """Create it open.

        Args:
            path: Takes records until its `closed_error` is set.
            engine: Holds them.
            client_id: For log lines and the thread's name.
            state_log: Told of the beginning and the end of closing.
            last_steps: Taken by the sender's thread when all is settled.
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
        """Start taking the sender's turns on a thread.

        Raises:
            RuntimeError: There are no more threads; the producer is closed.
        """
        try:
            self.thread.start(f"kprod-sender-{self._client_id}")
        except BaseException as error:
            self._path.closed_error = closed_error
            self.thread.stop_soon()
            self._engine.client.wakeup()
            if isinstance(error, Exception):  # else it may have begun, and ends by itself
                self.thread.finish()
            raise

    def call(self, count: Callable[[], int]) -> int:
        """Let the sender's thread make a call between two turns, and wait for it.

        Args:
            count: Owns what only the sender may touch.

        Returns:
            What it returned; 0 if the sender ended before.
        """
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
        # The sender may end just now, without another turn.
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
        """Settle the futures and let go of the parent's sockets, in a forked child.

        Args:
            error: For the records that were not settled.
        """
        self.thread.close_after_fork()
        error.persistence = Persistence.POSSIBLY_PERSISTED
        for result, _ in self._engine.accumulator.incomplete():
            result.abandon(error)
        self._wake_no_more()
        self._engine.client.close_after_fork()

    def _reject_more(self) -> Covered:
        """Take no more records; return the results to settle."""
        if self._path.closed_error is None:
            self._path.closed_error = closed_error
        self._engine.metadata.close()
        self._engine.pool.close()
        return self._engine.accumulator.incomplete()

    def _note_closing(self, *, is_first: bool) -> None:
        """Write the line, after everything that must be done before a signal is passed on."""
        if is_first:
            self._state_log.note(Event.CLOSING)

    def _end(self, deadline: Deadline) -> None:
        """End the sender, and wait a little longer for it than the caller asked for."""
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
                "%s: a delivery callback has not returned; the sender ends after it",
                self._client_id,
            )

    # On the sender's thread, at its end.

    def _die(self, cause: KprodError) -> None:
        self._cause = cause
        self._path.closed_error = partial(own_copy, cause)

    def _abort(self) -> None:
        if self._path.closed_error is None:  # a death that could not even make its error
            self._path.closed_error = closed_error
        self._engine.sender.abort(self._cause or ClosedError(_CLOSED_BEFORE))

    def _wake_no_more(self) -> None:
        """Let go of what sends write to when the sender sleeps; the last of them closes it."""
        self._path.wake = None

    def _abandon(self) -> None:
        """Settle what an abort that failed itself has left, so that nobody waits for ever."""
        for result, _ in self._engine.accumulator.incomplete():
            error = own_copy(self._cause or ClosedError(_CLOSED_BEFORE))
            error.persistence = Persistence.POSSIBLY_PERSISTED
            result.complete(error=error)


def closed_error() -> KprodError:
    """Say why a closed producer takes no record.

    Returns:
        An error of its own for each caller.
    """
    return ClosedError("the producer is closed; make another")
