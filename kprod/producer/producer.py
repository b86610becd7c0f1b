"""The producer as an application sees it: send, flush, close.

`send` is compiled (`SendPath`); this file wires the engine together, answers what the compiled path
leaves to Python, and ends things properly. Bulk sends are in `kprod.producer.bulk`.

Thread-safety: `Producer` may be used by any number of threads.
Source: Kafka KafkaProducer (clients 4.3.1); kprod's departures 11, 14, 19 to 21.
"""

import itertools
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self, SupportsIndex

from kprod._core.append import TopicHead
from kprod._core.batch_result import BatchResult
from kprod._core.collector import resume_in_child
from kprod._core.memory_waiter import MemoryWaiter
from kprod._core.send_hooks import not_initialised
from kprod.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.config import NetworkSettings, ProducerConfig, given_settings
from kprod.config.address import shown_addresses
from kprod.errors import (
    KprodError,
    ProducerForked,
    UnknownPartition,
    own_copy,
)
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Metrics, MetricsRecorder, Recorder, SilentRecorder
from kprod.metrics.state_log import StateLog
from kprod.metrics.table import NAN
from kprod.model import Acks, Codec
from kprod.network.client import NetworkClient
from kprod.network.epoll_selector import EpollSelector
from kprod.network.surroundings import NetworkDoors, system_doors
from kprod.producer import future as _future  # registers the future's bridges
from kprod.producer import lifetime
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.batch import ProducerBatch
from kprod.producer.buffer_pool import BufferPool
from kprod.producer.bulk import BulkSendPath
from kprod.producer.delivery import Delivery
from kprod.producer.ending import Ending, Engine
from kprod.producer.engine_parts import EngineParts
from kprod.producer.express_lane import ExpressLane
from kprod.producer.interceptors import Interceptors, OnDelivery
from kprod.producer.partitioner import ROUND_ROBIN, StickyPartitioner, key_rule
from kprod.producer.send_rules import SendRules
from kprod.producer.sender import Sender
from kprod.producer.topic_opener import TopicOpener
from kprod.producer.topic_queues import TopicQueues
from kprod.producer.transaction.manager import TransactionManager
from kprod.serialization import RecordSerializers
from kprod.timer.timer import Timer
from kprod.wording import plural

__all__ = ["Producer"]

_logger = guarded_logger(__name__)
_numbers = itertools.count(1)
del _future


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The world a producer runs in; tests and simulations bring another.

    Attributes:
        clock: Both instants.
        source: Of chance: jitter, sticky partitions.
        doors: Opens selector, resolver and sockets.
        is_threaded: Whether to start the sender's thread; else somebody calls `run_once`.
        has_metrics: Whether to count; without, the cost of counting can be measured.
    """

    clock: SystemClock = field(default_factory=SystemClock)
    source: random.Random = field(default_factory=random.Random)  # noqa: S311 - jitter
    doors: Callable[[NetworkSettings], NetworkDoors] = system_doors
    is_threaded: bool = True
    has_metrics: bool = True


class Producer(BulkSendPath):  # noqa: PLR0904 - the public face, and what the compiled path asks for
    """Sends records to Kafka in the background, and says of each what became of it.

    Args:
        settings: Settings by their Kafka names, such as `{"linger.ms": 5}`.
        environment: For tests and simulations.
        more_settings: Settings by their Python names, such as `linger_ms=5`.

    Raises:
        ConfigError: A setting is unknown, malformed or out of bounds.
        TypeError: `settings` is no mapping, such as an address alone.

    Thread-safety: any thread may send, flush and close.
    """

    topics: dict[str, TopicHead]

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        /,
        *,
        environment: Environment | None = None,
        **more_settings: object,
    ) -> None:
        if self.refusal is not not_initialised:
            raise RuntimeError("Producer.__init__ was called twice; make another Producer")
        config = ProducerConfig.parse(given_settings("Producer", settings, more_settings))
        world = environment or Environment()
        self._config = config
        self._world = world
        # Vital: a task that is cut off may leave a record unsettled; the sender then settles all.
        self._timer = Timer(world.clock.now_ms(), is_vital=True)
        self._metadata = Metadata(config.metadata_settings(), source=world.source)
        self._pool = BufferPool(config.accumulator_settings(), self._on_shortage)
        self.client_id = config.client_id or f"producer-{next(_numbers)}"
        self._state_log = StateLog(self.client_id)
        self._identity = TransactionManager(
            is_idempotent=config.enable_idempotence, state_log=self._state_log
        )
        self._accumulator = RecordAccumulator(
            config.accumulator_settings(),
            self._metadata,
            clock=world.clock,
            timer=self._timer,
            sticky=StickyPartitioner(
                config.partitioner_settings(),
                self._metadata,
                clock=world.clock,
                source=world.source,
            ),
            on_expired=self._expire,
        )
        self._recorder: Recorder = (
            MetricsRecorder(world.clock) if world.has_metrics else SilentRecorder()
        )
        self._opener = TopicOpener(
            self._metadata,
            self._accumulator,
            clock=world.clock,
            wake=self._wake,
            max_block_ms=config.max_block_ms,
        )
        self._interceptors = Interceptors(config.interceptors)
        self._serializers = RecordSerializers(config.key_serializer, config.value_serializer)
        rule = key_rule(config.partitioner_settings())
        # A record must fit whole chunks (`usable_bytes`), or it would wait for memory for ever.
        super().__init__(
            self._pool,
            world.clock,
            self._accumulator.inbox,
            self._accumulator.topics,
            SendRules(
                max_block_ms=config.max_block_ms,
                record_bytes_max=min(config.max_request_size, self._pool.usable_bytes),
                has_interceptors=bool(config.interceptors),
                has_serializers=bool(config.key_serializer or config.value_serializer),
                has_partitioner=callable(config.partitioner),
                takes_turns=config.partitioner == ROUND_ROBIN,
                key_hash=rule.key_hash,
                hashed_key_bytes_min=rule.bytes_min,
            ),
        )
        self._wire_up()
        lifetime.watch(self)
        if world.is_threaded:
            self._ending.start()

    def _wire_up(self) -> None:
        """Make the sender, what only it uses, and what ends it."""
        config, world = self._config, self._world
        network = replace(config.network_settings(), client_id=self.client_id)
        self._client = NetworkClient(
            network,
            self._metadata,
            world.doors(network),
            clock=world.clock,
            timer=self._timer,
            source=world.source,
            recorder=self._recorder,
        )
        self._delivery = Delivery(
            config.sender_settings(),
            accumulator=self._accumulator,
            identity=self._identity,
            metadata=self._metadata,
            timer=self._timer,
            source=world.source,
            recorder=self._recorder,
        )
        self._sender = Sender(
            config.sender_settings(),
            config.compression_settings(),
            accumulator=self._accumulator,
            client=self._client,
            delivery=self._delivery,
            identity=self._identity,
            metadata=self._metadata,
            timer=self._timer,
            clock=world.clock,
            source=world.source,
            path=self,
            refuse=self._refuse,
            recorder=self._recorder,
            state_log=self._state_log,
        )
        self._open_lane(config, world)
        self.wake = self._client.waker
        self._ending = Ending(
            self,
            Engine(
                clock=world.clock,
                metadata=self._metadata,
                pool=self._pool,
                accumulator=self._accumulator,
                client=self._client,
                sender=self._sender,
            ),
            client_id=self.client_id,
            state_log=self._state_log,
            last_steps=(self._interceptors.close, partial(lifetime.unwatch, self)),
        )
        self._thread = self._ending.thread
        self.make_batch = self._accumulator.make_batch  # type: ignore[method-assign]

    def _open_lane(self, config: ProducerConfig, world: Environment) -> None:
        """Open the lane for single records, where all of its way is compiled code."""
        if (
            config.linger_ms
            or config.acks is Acks.NONE
            or config.compression_type is not Codec.NONE
            or not world.is_threaded
            or not isinstance(self._client.selector, EpollSelector)
        ):
            return
        lane = ExpressLane(
            self._sender,
            self._client,
            self._accumulator,
            clock=world.clock,
            path=self,
            patience_ms=min(config.request_timeout_ms, config.delivery_timeout_ms),
        )
        self._client.lane = self.lane = lane

    def flush(self, timeout: float | None = None) -> int:
        """Send everything that was handed over before this call, without waiting for linger.

        Args:
            timeout: Seconds; None waits until all is settled, which `delivery_timeout_ms` bounds.

        Returns:
            How many of those records failed or were not settled in time. 0 is success.

        Raises:
            KprodError: Called from a delivery callback, which would wait for itself.
            ProducerForked: This is a forked child.
        """
        if self.refusal in {_forked_error, not_initialised}:
            raise self.refusal()
        started_ns = self._world.clock.now_ns()
        try:
            return self._ending.flush(timeout)
        finally:
            self._recorder.flushed(self._world.clock.now_ns() - started_ns)

    def purge(self) -> int:
        """Drop every record that is certainly not in the log and not on its way there.

        Their futures fail with `Purged`, as not persisted. What is in flight, or may be in the log,
        goes on, and is settled later: so of one partition a dropped record's callback may run
        before that of a record sent earlier.

        Returns:
            How many records were dropped.

        Raises:
            ClosedError: The producer is closed, or was made in a parent process.
        """
        if self.refusal is not None:
            raise self.refusal()
        return self._ending.call(self._delivery.purge)

    def hurry(self) -> None:
        """Let the sender send what lingers; never blocks. `flush` also waits."""
        self._ending.hurry()

    def refuse_in_child(self) -> None:
        """Take no more records, settle the futures, leave the parent alone; in a forked child."""
        resume_in_child()
        self.refusal = _forked_error
        self._ending.forsake(_forked_error())

    def close(self, timeout: float | None = None) -> int:
        """Flush, then end the sender and all connections. Later sends raise `ClosedError`.

        A signal handler that raises into it (Ctrl-C) ends the waiting, not the records: they go on,
        and `close` may be called again, as the end of the interpreter does.

        Inside a delivery callback it waits for nothing: the sender ends when the callbacks at hand
        have run, and what is not settled then fails.

        Args:
            timeout: Seconds for the flush; what is not settled then fails, and `close` returns
                within another half second even if a callback does not. None waits until all is
                settled and every callback has returned.

        Returns:
            How many records were not delivered by this call, or, inside a delivery callback, how
            many are not settled yet. 0 is success.

        Raises:
            ValueError: The timeout is negative or no number; nothing has happened.
            RuntimeError: `__init__` has not run, in a subclass that does not call it.
        """
        self._check_initialised()
        if self.refusal is _forked_error:
            lifetime.unwatch(self)
            return 0
        return self._ending.close(timeout)

    def begin_close(self) -> Callable[[], int]:
        """Take no more records, and send what there is without linger; never blocks.

        Returns:
            A function that tells how many of them are not delivered, now or later.
        """
        if self.refusal is _forked_error:
            return lambda: 0
        return self._ending.begin_close()

    def parts(self) -> EngineParts:
        """Return what another face of this producer needs of it."""
        self._check_initialised()
        return EngineParts(
            topics=self.topics,
            opener=self._opener,
            metadata=self._metadata,
            pool=self._pool,
            max_block_ms=self._config.max_block_ms,
            start_flush=self._start_flush,
        )

    def metrics(self) -> Metrics:
        """What the producer has counted of itself, under the names of Kafka's own producer.

        `docs/metrics.md` lists them. Averages, maxima and rates are over the last 30 to 60 s; an
        average or maximum of nothing is NaN.

        Returns:
            Values by name, by group: `metrics()["producer-metrics"]["record-send-total"]`; a topic
            and a node have groups of their own, `producer-topic-metrics.orders` and
            `producer-node-metrics.node-1`.

        Thread-safety: any thread; after `close`, too.
        """
        self._check_initialised()
        pool, now_ms = self._pool, self._world.clock.now_ms()
        age_ms = self._metadata.age_ms(now_ms)
        return self._recorder.read(
            now_ms,
            {
                "requests-in-flight": float(self._client.requests_in_flight),
                "buffer-total-bytes": float(pool.capacity_bytes),
                "buffer-available-bytes": float(pool.available_bytes),
                "waiting-threads": float(pool.waiter_count),
                "metadata-age": NAN if age_ms is None else age_ms / 1_000,
            },
        )

    def run_once(self, now_ms: int) -> None:
        """Take one turn of the sender; only where the environment has no thread."""
        self._sender.run_once(now_ms)

    def __repr__(self) -> str:
        name = type(self).__name__
        if "_ending" not in self.__dict__:  # a subclass has not called it, or it raised
            return f"<{name}, not made: its __init__ has not run to the end>"
        servers = shown_addresses(self._config.bootstrap_servers)
        return f"<{name} {self.client_id!r}, {self._ending.state}, bootstrap_servers={servers!r}>"

    def __enter__(self) -> Self:
        self._check_initialised()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        undelivered = self.close()
        if undelivered:
            records = plural(undelivered, "record was", "records were")
            _logger.warning("%s: %d %s not delivered", self.client_id, undelivered, records)

    def _start_flush(self) -> list[tuple[BatchResult, int]]:
        covered = self._accumulator.incomplete()
        self._ending.hurry()
        return covered

    # What the compiled path asks for.

    def open_topic(self, topic: str, timeout_ms: int) -> TopicHead:
        """Wait until the topic's partitions are known."""
        started_ns = self._world.clock.now_ns()
        try:
            return self._opener.open(topic, self._patience_ms(timeout_ms))
        finally:
            self._recorder.waited_for_metadata(self._world.clock.now_ns() - started_ns)

    def await_partition(self, head: TopicHead, partition: int, timeout_ms: int) -> None:
        """Refresh once; the partition may be new."""
        self._opener.await_partition(head, partition, self._patience_ms(timeout_ms))

    def wait_for_memory(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        """Wait in the pool's line."""
        started_ns = self._world.clock.now_ns()
        in_vain = True
        try:
            self._pool.wait_for(waiter, self._patience_ms(timeout_ms))
            in_vain = False
        finally:
            waited_ns = self._world.clock.now_ns() - started_ns
            self._recorder.waited_for_memory(waited_ns, in_vain=in_vain)

    def roll_sticky(self, head: TopicHead) -> None:
        """Draw another partition for records without key."""
        assert isinstance(head, TopicQueues)  # noqa: S101 - the accumulator makes no other
        self._accumulator.roll_sticky(head)

    def choose_partition(self, head: TopicHead, key: Any, value: Any) -> int:  # noqa: ANN401, ARG002
        """Ask the configured partitioner."""
        snapshot = self._metadata.snapshot
        everyone = range(head.partition_count)
        available = [p for p in everyone if snapshot.leader_of(head.name, p) is not None]
        partitioner = self._config.partitioner
        assert callable(partitioner)  # noqa: S101 - has_partitioner says so
        partition = partitioner(key, everyone, available)
        if not isinstance(partition, SupportsIndex) or partition not in everyone:
            raise UnknownPartition(
                f"the partitioner chose {partition!r} for topic {head.name!r}, which has partitions"
                f" 0 to {len(everyone) - 1}"
            )
        return partition

    def serialize(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401
        """Run the configured serializers."""
        return self._serializers.run(topic, key, value, headers)

    def intercept(self, record: tuple[Any, ...], on_delivery: OnDelivery | None) -> tuple[Any, ...]:
        """Show a record to the interceptors."""
        return *self._interceptors.on_send(record), self._interceptors.watching(on_delivery)

    def too_large_text(self, topic: str, size_bytes: int) -> str:
        """Name both sizes and the setting."""
        setting, limit_bytes = "max_request_size", self._config.max_request_size
        if self._pool.usable_bytes < limit_bytes:
            setting, limit_bytes = "buffer_memory", self._config.buffer_memory
        return (
            f"a record for {topic!r} takes up to {size_bytes} bytes encoded, and"
            f" {setting}={limit_bytes} allows no more; raise it, and the topic's max.message.bytes"
            " with it, or send less in one record"
        )

    def note_failed(self, topic: str, record_count: int) -> None:
        """Count them as the sender counts those that it fails."""
        self._recorder.failed(topic, record_count)

    def _patience_ms(self, timeout_ms: int) -> int:
        """On the sender's own thread nothing waits for what only that thread can bring."""
        return 0 if self._thread.is_current else timeout_ms

    # The sender's.

    def _expire(self, batch: ProducerBatch) -> None:
        self._delivery.expire(batch)

    def _on_shortage(self) -> None:
        self._accumulator.ask_for_sweep()
        self._wake()

    def _refuse(self, error: KprodError) -> None:
        if self.refusal is None:
            self.refusal = partial(own_copy, error)

    def _wake(self) -> None:
        self._client.wakeup()


def _forked_error() -> KprodError:
    return ProducerForked(
        f"this producer was made in a parent of process {os.getpid()}; threads and connections do"
        " not survive a fork: make a producer in the child"
    )
