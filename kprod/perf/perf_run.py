"""One run of one client in one process: which records to send now, and their outcomes.

A client's loop asks `blocks` for the records that are due, sends them, and tells the outcomes:
`timed` says what to call at the delivery of a record whose latency is measured, `check` and
`fail` take failures. One thread, the reporter, takes the measured latencies by `take`.

Latencies are put into a queue as they come and counted by the reporter, a thousand at a time:
neither a callback nor the sending thread waits for a tally. A timed record uses few objects, since
their number triggers Python's garbage collector, which traverses every future that is kept.

Invariants.
    A record that fails is counted once, and has no latency.
    A latency counts from the instant at which the pace says that the record is due.

Thread-safety: `blocks` and `check` on the sending thread, `take` on one thread; `note`, `fail` and
`stop` from any thread.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kprod.clock import Clock
from kprod.perf.latency_tally import LatencyTally
from kprod.perf.pace import Pace
from kprod.perf.payloads import Payloads

ERRORS_KEPT_MAX = 20
"""Kinds of errors that are told apart; the others are counted as one."""

OTHER_ERRORS = "other errors"
Future = TypeVar("Future")
Timed = tuple[Callable[[int], None], int]
_PIECE = 1_000
NS_PER_S = 1_000_000_000


class Block(NamedTuple):
    """Records to send now, in a row; or a time to wait.

    Attributes:
        first: Number of the first record, from 0.
        values: Values of the records; none while nothing is due.
        timed: Indexes of the measured ones among `values`.
        wait_s: Seconds until the next record is due, if none is due now.
    """

    first: int
    values: Sequence[bytes]
    timed: range
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The condition that ends a run: everything requested has been sent.

    Attributes:
        record_count: None for any number.
        seconds: Least time.
        bytes_min: Least bytes of values.
        warmup_count: Number of first records that do not count as steady state.
        sample_every: Every record with a multiple of this number is timed; None for none.
    """

    record_count: int | None = None
    seconds: float = 0.0
    bytes_min: int = 0
    warmup_count: int = 0
    sample_every: int | None = None


@dataclass(slots=True)
class Figures:
    """The figures of a run.

    Attributes:
        sent_count: Records handed over.
        sent_bytes: Total size of the values.
        elapsed_ns: Nanoseconds from the first record to the last acknowledgement.
        steady_elapsed_ns: The same from the end of the warm-up.
        cpu_s: CPU time of the whole process in that time, user and system.
        errors: Number of failed records by the client's error text.
    """

    sent_count: int = 0
    sent_bytes: int = 0
    elapsed_ns: int = 0
    steady_elapsed_ns: int = 0
    cpu_s: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def failed_count(self) -> int:
        """Records that failed."""
        return self.errors.total()


class PerfRun:
    """A run.

    Args:
        clock: Clock for latencies and for the total time.
        pace: Schedule of the records.
        payloads: Their values.
        goal: Condition that ends the run.
    """

    __slots__ = (
        "_began_ns",
        "_clock",
        "_goal",
        "_lock",
        "_note_steady",
        "_note_warm",
        "_pace",
        "_payloads",
        "_steady_began_ns",
        "_steady_ns",
        "_stopped",
        "_warm_ns",
        "figures",
        "metrics",
    )

    def __init__(self, clock: Clock, pace: Pace, payloads: Payloads, goal: Goal) -> None:
        self._clock = clock
        self._pace = pace
        self._payloads = payloads
        self._goal = goal
        self._began_ns = self._steady_began_ns = 0
        self._warm_ns: deque[int] = deque()
        self._steady_ns: deque[int] = deque()
        self._note_warm = partial(_note, clock.now_ns, self._warm_ns)
        self._note_steady = partial(_note, clock.now_ns, self._steady_ns)
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # guards the errors
        self.figures: Figures = Figures()
        self.metrics: Mapping[str, Mapping[str, float]] = {}

    def begin(self) -> None:
        """Start the clocks: the next record is the first."""
        self.figures.cpu_s = time.process_time()
        self._began_ns = self._steady_began_ns = self._clock.now_ns()
        self._pace.begin()

    def end(self) -> None:
        """Stop the clocks: everything is settled."""
        now_ns = self._clock.now_ns()
        self.figures.elapsed_ns = now_ns - self._began_ns
        self.figures.steady_elapsed_ns = now_ns - self._steady_began_ns
        self.figures.cpu_s = time.process_time() - self.figures.cpu_s

    def stop(self) -> None:
        """Let `blocks` end, and whatever sleeps by `sleep` wake up."""
        self._stopped.set()

    def note_metrics(self, metrics: Mapping[str, Mapping[str, float]]) -> None:
        """Keep what the client has counted of itself.

        Args:
            metrics: Values by name, by group.
        """
        self.metrics = metrics

    @property
    def is_timed(self) -> bool:
        """Whether any record's latency is measured."""
        return self._goal.sample_every is not None

    @property
    def is_stopped(self) -> bool:
        """Whether the run was ended before its goal."""
        return self._stopped.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than until `stop`."""
        self._stopped.wait(seconds)

    def blocks(self) -> Iterator[Block]:
        """Say what to do next, until the goal is reached.

        Yields:
            Records to send, which count as sent; or how long to wait, with no records.
        """
        figures, pace = self.figures, self._pace
        while not self._stopped.is_set() and not self._is_reached():
            sent = figures.sent_count
            due = self._bounded(sent, pace.due_count(sent))
            if due == 0:
                yield Block(sent, (), range(0), pace.wait_s(sent))
                continue
            if sent == self._goal.warmup_count:
                self._steady_began_ns = self._clock.now_ns()
            values = self._payloads.block(sent, due)
            figures.sent_count = sent + due
            figures.sent_bytes += self._payloads.size_bytes(sent, due)
            yield Block(sent, values, self._timed_places(sent, due), 0.0)

    def timed(self, number: int) -> Timed:
        """Say how to note the delivery of a record.

        Args:
            number: The record's, as it is about to be sent.

        Returns:
            A function, which any thread may call, and its argument.
        """
        note = self._note_warm if number < self._goal.warmup_count else self._note_steady
        return note, self._pace.due_ns(number)

    def reject(self, error: object, block: Block, sent_count: int) -> None:
        """Record that a client rejected the rest of a block, and end the run.

        Args:
            error: The client's error; the record that it did not accept counts as failed.
            block: The latest of `blocks`.
            sent_count: Number of the block's records that were accepted.
        """
        self.fail(error)
        unsent = block.values[sent_count + 1 :]
        self.figures.sent_count -= len(unsent)
        self.figures.sent_bytes -= sum(map(len, unsent))
        self.stop()

    def fail(self, error: object, record_count: int = 1) -> None:
        """Count records that failed.

        Args:
            error: The client's error.
            record_count: Number of records that failed.
        """
        text = (
            f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
        )
        with self._lock:
            errors = self.figures.errors
            if text not in errors and len(errors) >= ERRORS_KEPT_MAX:
                text = OTHER_ERRORS
            errors[text] += record_count

    def check(self, failures: Iterable[object | None]) -> None:
        """Count the failures among outcomes.

        Args:
            failures: None for each record that was delivered.
        """
        for failure in filter(None, failures):
            self.fail(failure)

    def take(self) -> tuple[LatencyTally, LatencyTally, list[int]]:
        """Take the latencies measured since the last call.

        Returns:
            Latencies of the warm-up, those of the steady state, and all of them one by one.
        """
        warm, steady = LatencyTally(), LatencyTally()
        taken: list[int] = []
        for waiting, tally in ((self._warm_ns, warm), (self._steady_ns, steady)):
            while waiting:
                piece = [waiting.popleft() for _ in range(min(len(waiting), _PIECE))]
                tally.record(piece)
                taken += piece
        return warm, steady, taken

    def _is_reached(self) -> bool:
        goal, figures = self._goal, self.figures
        if goal.record_count is not None and figures.sent_count < goal.record_count:
            return False
        elapsed_ns = self._clock.now_ns() - self._began_ns
        return elapsed_ns >= goal.seconds * NS_PER_S and figures.sent_bytes >= goal.bytes_min

    def _bounded(self, sent: int, due: int) -> int:
        """As many as there are left, and no block on both sides of the warm-up's end."""
        goal = self._goal
        if goal.record_count is not None:
            due = min(due, goal.record_count - sent)
        return min(due, goal.warmup_count - sent) if sent < goal.warmup_count else due

    def _timed_places(self, first: int, block_count: int) -> range:
        every = self._goal.sample_every
        return range(0) if every is None else range(-first % every, block_count, every)


def _note(now_ns: Callable[[], int], waiting: deque[int], due_ns: int) -> None:
    waiting.append(now_ns() - due_ns)


class Outstanding(Generic[Future]):
    """Futures, the last 100,000 of them at least; each is looked at before it is dropped.

    Args:
        settled: Takes futures in the order of sending, and tells the run of their outcomes.
        is_done: Whether a future is settled already; None where `settled` waits for it.
    """

    KEPT_COUNT = 100_000

    __slots__ = ("_blocks", "_is_done", "_kept_count", "_settled")

    def __init__(
        self,
        settled: Callable[[list[Future]], object],
        is_done: Callable[[Future], bool] | None = None,
    ) -> None:
        self._settled = settled
        self._is_done = is_done
        self._blocks: deque[list[Future]] = deque()
        self._kept_count = 0

    def keep(self, futures: list[Future]) -> None:
        """Keep a block's futures, and settle the oldest if there are too many."""
        if futures:
            self._blocks.append(futures)
            self._kept_count += len(futures)
        while self._kept_count > self.KEPT_COUNT and self._may_settle():
            self._settle()

    def settle_all(self) -> None:
        """Settle all; each is done, or is waited for."""
        while self._blocks:
            self._settle()

    def _may_settle(self) -> bool:
        return self._is_done is None or self._is_done(self._blocks[0][-1])

    def _settle(self) -> None:
        futures = self._blocks.popleft()
        self._kept_count -= len(futures)
        self._settled(futures)
