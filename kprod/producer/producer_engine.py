"""The parts of one producer, and the operations that involve several parts.

Public classes hold it as their `_kprod`: its attributes are not in the name space that an
application's subclass shares. `kprod.producer.wiring` creates it.

Thread-safety: any thread, except `run_once`; parts as each of them says.
Source: Kafka KafkaProducer (clients 4.3.1); kprod's departures 19 to 21.
"""

import os
import weakref
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kprod._core.collector import resume_in_child
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.send_path import SendPath
from kprod.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.config import ProducerConfig
from kprod.config.address import shown_addresses
from kprod.errors import KprodError, ProducerForked, own_copy
from kprod.lifetime import open_clients
from kprod.lifetime.loop_thread import LoopThread
from kprod.metrics.recorder import Metrics, Recorder
from kprod.metrics.state_log import StateLog
from kprod.metrics.table import NAN, Group
from kprod.network.client import NetworkClient
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.batch import ProducerBatch
from kprod.producer.buffer_pool import BufferPool
from kprod.producer.closing import Closing
from kprod.producer.delivery import Delivery
from kprod.producer.health import ProducerHealth
from kprod.producer.send_support import SendSupport
from kprod.producer.sender import Sender
from kprod.producer.topic_opener import TopicOpener
from kprod.producer.transaction.manager import TransactionManager
from kprod.threads import Thread
from kprod.timer.timer import Timer


class Face(Protocol):
    """The public object of an engine, as the engine sees it."""

    def close(self, timeout: float | None = None) -> int:
        """Flush and close."""


class ProducerEngine:  # noqa: PLR0904 - what the public classes ask, and what the parts ask
    """One producer without its public class.

    Attributes:
        config: The topic's settings.
        clock: Monotonic and wall clock.
        client_id: The client id that brokers and log lines show.
        state_log: Called with changes that an operator should know.
        recorder: Counts events for the metrics.
        timer: Timer for all deadlines.
        metadata: The cluster metadata.
        pool: The memory of batches.
        accumulator: Holds the batches.
        opener: Waits for topics and partitions.
        support: Implements the Python part of the send path.
        path: The send path.
        client: The network client.
        transaction_manager: The producer id and the sequences.
        delivery: Settles batches.
        sender: The sender, which does the rest of the work.
        closing: Flushes and closes.
    """

    __slots__ = (
        "__weakref__",
        "_face",
        "accumulator",
        "client",
        "client_id",
        "clock",
        "closing",
        "config",
        "delivery",
        "metadata",
        "opener",
        "path",
        "pool",
        "recorder",
        "sender",
        "state_log",
        "support",
        "timer",
        "transaction_manager",
    )

    accumulator: RecordAccumulator
    client: NetworkClient
    delivery: Delivery
    closing: Closing
    transaction_manager: TransactionManager
    metadata: Metadata
    opener: TopicOpener
    path: SendPath
    pool: BufferPool
    recorder: Recorder
    sender: Sender
    state_log: StateLog
    support: SendSupport
    timer: Timer

    def __init__(self, config: ProducerConfig, clock: SystemClock, client_id: str) -> None:
        """Create the parts that others share; `kprod.producer.wiring` adds the rest.

        Args:
            config: The topic's settings.
            clock: Monotonic and wall clock.
            client_id: The client id, not empty.
        """
        self.config: ProducerConfig = config
        self.clock: SystemClock = clock
        self.client_id: str = client_id

    @property
    def thread(self) -> LoopThread:
        """The thread that runs the sender."""
        return self.closing.thread

    @property
    def is_open(self) -> bool:
        """Whether records are accepted."""
        return self.path.closed_error is None

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy in a forked child, which does nothing."""
        return self.path.closed_error is _forked_error

    def start(self, face: "Face", *, is_threaded: bool) -> None:
        """Start the sender's thread, and register the close at the interpreter's exit.

        Args:
            face: The public object, whose `close`, which a subclass may override, is called at the
                interpreter's exit.
            is_threaded: False if the caller runs `run_once` instead.
        """
        self._face = weakref.ref(face)
        open_clients.watch(self)
        if is_threaded:
            self.closing.start()

    def run_once(self, now_ms: int) -> None:
        """Run one turn of the sender; only without a thread."""
        self.sender.run_once(now_ms)

    def flush(self, timeout: float | None) -> int:
        """See `Producer.flush`."""
        if self.is_forked:
            raise _forked_error()
        started_ns = self.clock.now_ns()
        try:
            return self.closing.flush.flush(timeout)
        finally:
            self.recorder.flushed(self.clock.now_ns() - started_ns)

    def start_flush(self) -> list[tuple[BatchResult, int]]:
        """Make all batches due; never blocks.

        Returns:
            The results to wait for, with the number of records in each.
        """
        covered = self.accumulator.incomplete()
        self.closing.flush.flush_soon()
        return covered

    def flush_soon(self) -> None:
        """Make the sender send lingering batches without waiting; `flush` also waits."""
        self.closing.flush.flush_soon()

    def purge(self) -> int:
        """See `Producer.purge`."""
        if self.path.closed_error is not None:
            raise self.path.closed_error()
        return self.closing.call(self.delivery.purge)

    def close_soon(self) -> Callable[[], int]:
        """Accept no more records, and send the rest without linger; never blocks.

        Returns:
            A function that returns how many of them are not delivered at the time of the call.
        """
        if self.is_forked:
            return lambda: 0
        return self.closing.close_soon()

    def close(self, timeout: float | None = None) -> int:
        """See `Producer.close`."""
        if self.is_forked:
            open_clients.unwatch(self)
            return 0
        return self.closing.close(timeout)

    def close_at_exit(self, timeout: float) -> int:
        """Call the public object's `close`, which a subclass may have overridden."""
        face = self._face()
        return self.close(timeout) if face is None else face.close(timeout)

    def reject_in_child(self) -> None:
        """Accept no more records and settle the futures, in a forked child, without the parent."""
        resume_in_child()
        self.path.closed_error = _forked_error
        self.closing.close_after_fork(_forked_error())

    def metrics(self) -> Metrics:
        """See `Producer.metrics`."""
        pool, now_ms = self.pool, self.clock.now_ms()
        age_ms = self.metadata.age_ms(now_ms)
        return self.recorder.read(
            now_ms,
            {
                "requests-in-flight": float(self.client.requests_in_flight),
                "buffer-total-bytes": float(pool.capacity_bytes),
                "buffer-available-bytes": float(pool.available_bytes),
                "waiting-threads": float(pool.waiter_count),
                "metadata-age": NAN if age_ms is None else age_ms / 1_000,
            },
        )

    def health(self) -> ProducerHealth:
        """See `Producer.health`."""
        if self.path.closed_error is not None:
            return ProducerHealth(
                is_alive=False, is_connected=False, reason=str(self.path.closed_error())
            )
        values = self.metrics()[Group.PRODUCER.value]
        if values.get("connection-count", 0.0) > 0:
            return ProducerHealth(is_alive=True, is_connected=True, reason=None)
        trouble = self.metadata.trouble()
        return ProducerHealth(is_alive=True, is_connected=False, reason=trouble)

    def described_as(self, name: str) -> str:
        """Describe the producer and its state for people.

        Args:
            name: Name of the public class.

        Returns:
            The `repr` of the public object.
        """
        servers = shown_addresses(self.config.bootstrap_servers)
        return f"<{name} {self.client_id!r}, {self.closing.state}, bootstrap_servers={servers!r}>"

    # Functions that parts need from parts that are created later.

    def is_on_sender(self) -> bool:
        """Whether the calling thread is the sender's."""
        return self.closing.thread.is_current

    def start_worker(self, name: str, run: Callable[[], object]) -> Thread:
        """See `LoopThread.start_worker`."""
        return self.closing.thread.start_worker(f"{name}-{self.client_id}", run)

    def expire(self, batch: ProducerBatch) -> None:
        """Fail a batch whose delivery timeout has expired; called by the sender."""
        self.delivery.expiry.expire(batch)

    def relieve(self) -> None:
        """Make the sender send all batches, since a send waits for memory."""
        self.accumulator.ask_for_sweep()
        self.wake()

    def reject(self, error: KprodError) -> None:
        """Accept no more records, because of an error."""
        if self.path.closed_error is None:
            self.path.closed_error = partial(own_copy, error)

    def wake(self) -> None:
        """End the sender's sleep."""
        self.client.wakeup()


def _forked_error() -> KprodError:
    return ProducerForked(
        f"this producer was made in a parent of process {os.getpid()}; threads and connections do"
        " not survive a fork: make a producer in the child"
    )
