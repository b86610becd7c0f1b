"""One consumer without its public face: its parts, and its life from start to end.

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
from kprod.consumer.consumer_metrics import metrics_of
from kprod.consumer.log_faults import LogFaults
from kprod.consumer.parts import ConsumerParts, check_timeout
from kprod.consumer.record_reading import Reading
from kprod.consumer.selection import Selection
from kprod.errors import ClosedError, ConsumerForked, KprodError, own_copy
from kprod.guarded_log import guarded_logger
from kprod.lifetime import open_clients
from kprod.metrics.state_log import Event
from kprod.wording import plural

CLOSE_GRACE_S = 0.3  # for the last turn and the last steps

_logger = guarded_logger(__name__)


class Face(Protocol):
    """The public object of an engine."""

    def close(self, timeout: float | None = None) -> None:
        """End."""


class ConsumerEngine:
    """What the public class holds as its `_kprod`.

    Attributes:
        parts: What it is made of.
        selection: The partitions and their positions.
        reading: Reads.
        questions: Asks the cluster.
        faults: Knows what happened to the logs.
        client_id: The name that brokers see, and log lines.
    """

    __slots__ = (
        "__weakref__",
        "_face",
        "client_id",
        "faults",
        "parts",
        "questions",
        "reading",
        "selection",
    )

    def __init__(self, parts: ConsumerParts) -> None:
        """Put the application's side of a consumer together.

        Args:
            parts: Those that need none of it; the wiring adds the others.
        """
        self.parts: ConsumerParts = parts
        self.client_id: str = parts.client_id
        self.selection: Selection = Selection(parts)
        self.reading: Reading = Reading(parts, self.selection.restart)
        self.selection.alone = self.reading.alone
        self.questions: ClusterQuestions = ClusterQuestions(parts)
        self.faults: LogFaults = LogFaults(parts, self.selection.restart)

    def start(self, face: Face, *, is_threaded: bool) -> None:
        """Take the loop's turns on a thread, and close at the interpreter's end.

        Args:
            face: The public object; its `close` is called at the interpreter's end.
            is_threaded: Else whoever waits takes the turns.

        Raises:
            RuntimeError: There are no more threads; the consumer is closed.
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
        """In one word, for people: open, closing or closed."""
        if self.parts.thread.has_ended:
            return "closed"
        return "open" if self.parts.closed_error is None else "closing"

    def close_soon(self) -> Callable[[], int]:
        """Hand out nothing more, and end the thread; never blocks.

        Returns:
            A function that counts the records lost at the end: 0.
        """
        self._end_soon()
        return _nothing

    def close(self, timeout: float | None) -> None:
        """See `Consumer.close`."""
        check_timeout(timeout)
        deadline = Deadline(timeout)
        if self.parts.closed_error is _forked_error:
            open_clients.unwatch(self)
            return
        self._end_soon()
        if not self.parts.thread.is_started:
            if not self.parts.thread.has_ended:
                self.parts.thread.finish()
        elif not self.parts.thread.is_current:
            left_s = deadline.wait_s()
            if not self.parts.thread.wait_ended(left_s if left_s < 0 else left_s + CLOSE_GRACE_S):
                _logger.warning("%s: the thread has not ended in time", self.client_id)
        if self.reading.is_idle:
            self.parts.hand_over.clear()

    def close_at_exit(self, timeout: float) -> int:
        """Close as the public object would, which a subclass may have made do more."""
        face = self._face()
        if face is None:
            self.close(timeout)
        else:
            face.close(timeout)
        return 0

    def reject_in_child(self) -> None:
        """Refuse all further calls and let go of the parent's sockets, in a forked child."""
        self.parts.closed_error = _forked_error
        self.reading.forget_reader()
        self.parts.hand_over.interrupt()
        self.parts.thread.close_after_fork()
        self.parts.client.close_after_fork()

    def last_steps(self) -> list[Callable[[], object]]:
        """What the I/O thread does at its end."""
        return [
            self.parts.metadata.close,
            lambda: self.parts.fetcher.close_sessions(self.parts.clock.now_ms()),
            self.parts.loop.close,
            self.parts.client.close_after_fork,  # what a death kept from closing
            self.parts.mailbox.notify,
            partial(open_clients.unwatch, self),
            self.parts.interceptors.close,
            partial(self.parts.state_log.note, Event.CLOSED),
        ]

    def die(self, cause: KprodError) -> None:
        """Refuse all further calls, because the I/O thread died."""
        self.parts.closed_error = partial(own_copy, cause)

    def _end_soon(self) -> None:
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
        """See `Consumer.metrics`."""
        return metrics_of(self.parts, self.selection, self.faults.truncation_count)

    def described_as(self, name: str) -> str:
        """Say for people which consumer it is, and what it does.

        Args:
            name: Of the public class.

        Returns:
            What `repr` of the public object says.
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
