"""The consumer without its public class: its parts, and its life cycle.

Thread-safety: any thread.
Source: Kafka AsyncKafkaConsumer and ClassicKafkaConsumer (clients 4.3.1).
"""

import os
import weakref
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kprod.clock import Deadline
from kprod.config.address import shown_addresses
from kprod.consumer.cluster_questions import ClusterQuestions
from kprod.consumer.commit_calls import CommitCalls
from kprod.consumer.consumer_metrics import metrics_of
from kprod.consumer.group_end import GroupEnd
from kprod.consumer.group_steps import GroupSteps
from kprod.consumer.log_faults import LogFaults
from kprod.consumer.parts import ConsumerParts, check_timeout
from kprod.consumer.record_reading import ReadCall, Reading, Result, Taken
from kprod.consumer.selection import Selection
from kprod.errors import ClosedError, ConsumerForked, KprodError, own_copy
from kprod.guarded_log import guarded_logger
from kprod.lifetime import open_clients
from kprod.metrics.state_log import Event
from kprod.wording import plural

CLOSE_GRACE_S = 0.3  # for the last turn of the loop and the closing steps

_logger = guarded_logger(__name__)


class Face(Protocol):
    """The public object of an engine, as the engine sees it."""

    def close(self, timeout: float | None = None) -> None:
        """End."""


class ConsumerEngine:
    """A consumer's engine, which `Consumer` holds as `_kprod`.

    Attributes:
        parts: The consumer's parts.
        selection: Assignment and positions.
        committing: Implements commits.
        steps: The steps of a rebalance.
        is_failing: Whether an exception ends the `with` block: records in hand are not done.
        reading: Implements poll and iteration.
        questions: Implements the cluster queries.
        faults: Handles offsets out of range and truncated logs.
        client_id: The client id that brokers and log lines show.
    """

    __slots__ = (
        "__weakref__",
        "_face",
        "client_id",
        "committing",
        "faults",
        "is_failing",
        "parts",
        "questions",
        "reading",
        "selection",
        "steps",
    )

    def __init__(self, parts: ConsumerParts) -> None:
        """Create the parts that the application's threads use.

        Args:
            parts: The parts without those; `consumer_wiring` adds the rest.
        """
        self.parts: ConsumerParts = parts
        self.client_id: str = parts.client_id
        self.selection: Selection = Selection(parts)
        self.committing: CommitCalls = CommitCalls(parts)
        self.steps: GroupSteps = GroupSteps(
            parts, self.selection, self.committing, self._public_object
        )
        self.is_failing: bool = False
        self.reading: Reading = Reading(parts, self.selection.restart)
        self.questions: ClusterQuestions = ClusterQuestions(parts)
        self.faults: LogFaults = LogFaults(parts, self.selection.restart)

    def start(self, face: Face, *, is_threaded: bool) -> None:
        """Start the I/O thread, and register the close at the interpreter's exit.

        Args:
            face: The public object, whose `close` is called at the interpreter's exit.
            is_threaded: False if waiting threads run the loop instead of an I/O thread.

        Raises:
            RuntimeError: No thread can be started; the consumer is closed.
        """
        self._face = weakref.ref(face)
        open_clients.watch(self)
        if not is_threaded:
            return
        try:
            self.parts.thread.start(f"kprod-consumer-{self.client_id}")
        except BaseException:
            self.parts.closed_error = _closed_error
            self.parts.thread.finish()
            raise

    @property
    def state(self) -> str:
        """The state for people: open, closing or closed."""
        if self.parts.thread.has_ended:
            return "closed"
        return "open" if self.parts.closed_error is None else "closing"

    def read(
        self, call: ReadCall[Taken, Result], until_ms: int | None, *, runs_steps: bool = True
    ) -> Result:
        """Return the result of a read, whose records count as returned from the last steps on.

        It is Python code: CPython runs signal handlers when a compiled function has returned, but
        not when one in Python has. So none runs between here and the application.

        Args:
            call: The kind of read.
            until_ms: Deadline, monotonic; None for none.
            runs_steps: False if the caller runs the steps for the polling thread by itself.

        Returns:
            The result of `call.finish`.
        """
        parts, claim = self.parts, object()
        hand_over, alone = parts.hand_over, parts.alone
        try:
            result = self.reading.begin(call, until_ms, claim, runs_steps)
        except BaseException:  # also a signal handler's, after the call
            self.reading.abandon(claim)
            raise
        # No call from here to the return, unless the consumer was closed meanwhile.
        hand_over.is_complete = True
        alone.holder = None
        if parts.closed_error is not None:
            self.reading.free_if_closed()
        return result

    def close_soon(self) -> Callable[[], int]:
        """Return no more records, and stop the I/O thread, at the interpreter's exit; never blocks.

        A member of a group continues until `close_at_exit`, which commits and leaves the group.

        Returns:
            A function that returns the number of lost records: always 0.
        """
        if self.parts.group is None:
            self.end_soon()
        return _nothing

    def close(self, timeout: float | None, *, leave: bool | None = None) -> None:
        """Implement `Consumer.close`."""
        check_timeout(timeout)
        if leave is not None and not isinstance(leave, bool):
            raise TypeError(f"leave is None, True or False, not {leave!r:.80}")
        deadline = Deadline(timeout)
        if self.parts.closed_error is _forked_error:
            open_clients.unwatch(self)
            return
        if self.parts.closed_error is None and not self.parts.thread.is_current:
            end = GroupEnd(self.parts, self.steps, self.committing)
            end.run(timeout, is_failing=self.is_failing, leave=leave)
        self.end_soon()
        if not self.parts.thread.is_started:
            if not self.parts.thread.has_ended:
                self.parts.thread.finish()
        elif not self.parts.thread.is_current:
            left_s = deadline.wait_s()
            if not self.parts.thread.wait_ended(left_s if left_s < 0 else left_s + CLOSE_GRACE_S):
                _logger.warning("%s: the thread has not ended in time", self.client_id)
        if not self.parts.thread.is_current:
            self.committing.run_callbacks()
        self.reading.free_if_closed()

    def close_at_exit(self, timeout: float) -> int:
        """Call the public object's `close`, which a subclass may have overridden.

        Records in hand count as not done: nobody has asked past them, and the exit may be an
        exception or `sys.exit` in the middle of them.

        Args:
            timeout: Seconds to wait for the end.

        Returns:
            The number of lost records: always 0.
        """
        self.is_failing = True
        face = self._face()
        if face is None:
            self.close(timeout)
        else:
            face.close(timeout)
        return 0

    def reject_in_child(self) -> None:
        """Reject all further calls and close the inherited sockets, in a forked child."""
        self.parts.closed_error = _forked_error
        self.reading.forget_reader()
        self.parts.hand_over.interrupt()
        self.parts.thread.close_after_fork()
        if self.parts.direct_read is not None:
            self.parts.direct_read.close_after_fork()
        self.parts.client.close_after_fork()

    def last_steps(self) -> list[Callable[[], object]]:
        """Return the steps that the I/O thread runs at its end."""
        return [
            self.parts.metadata.close,
            self.parts.mailbox.run_commands,  # commits that the loop has not taken yet
            self._fail_commits,
            lambda: self.parts.fetcher.close_sessions(self.parts.clock.now_ms()),
            self.parts.loop.close,
            self.parts.client.close_after_fork,  # needed if the thread died
            self.parts.mailbox.notify,
            partial(open_clients.unwatch, self),
            self.reading.free_if_closed,  # nothing is fetched any more
            self.parts.interceptors.close,
            partial(self.parts.state_log.note, Event.CLOSED),
        ]

    def _public_object(self) -> object:
        return self._face()

    def _fail_commits(self) -> None:
        if self.parts.group is not None:
            self.parts.group.commits.fail_all(_closed_error())

    def die(self, cause: KprodError) -> None:
        """Reject all further calls, because the I/O thread died."""
        self.parts.closed_error = partial(own_copy, cause)

    def end_soon(self) -> None:
        """Return no more records, and stop the I/O thread; never blocks."""
        is_first = self.parts.closed_error is None
        if is_first:
            self.parts.closed_error = _closed_error
        self.parts.hand_over.interrupt()
        self.parts.thread.stop_soon()
        self.parts.client.wakeup()
        self.parts.mailbox.notify()
        if is_first:
            self.parts.state_log.note(Event.CLOSING)

    def metrics(self) -> dict[str, dict[str, float]]:
        """Implement `Consumer.metrics`."""
        return metrics_of(self.parts, self.selection, self.faults.truncation_count)

    def described_as(self, name: str) -> str:
        """Describe the consumer and its state for people.

        Args:
            name: Name of the public class.

        Returns:
            The `repr` of the public object.
        """
        count = len(self.parts.assignment.partitions)
        servers = shown_addresses(self.parts.config.bootstrap_servers)
        return (
            f"<{name} {self.client_id!r}, {self.state}, {count}"
            f" {plural(count, 'partition', 'partitions')}, bootstrap_servers={servers!r}>"
        )


def _closed_error() -> KprodError:
    return ClosedError("the consumer is closed; make another")


def _forked_error() -> KprodError:
    return ConsumerForked(
        f"this consumer was made in a parent of process {os.getpid()}; threads and connections do"
        " not survive a fork: make a consumer in the child"
    )


def _nothing() -> int:
    return 0
