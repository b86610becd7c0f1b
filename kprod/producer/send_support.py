"""The Python part of a producer's send path.

It has the steps that block (a new topic, a full buffer), that choose a partition, or that call the
application (serializers, interceptors, partitioner).

Thread-safety: each method is called by the sending thread.
Source: Kafka KafkaProducer.doSend (clients 4.3.1); kprod's departures 11, 14 and 20.
"""

import contextlib
from collections.abc import Callable, Generator, Hashable
from typing import Any, SupportsIndex

from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod._core.send.partition_appender import TopicRoutes
from kprod._core.send.send_hooks import SendHooks
from kprod.clock import Clock
from kprod.cluster.metadata import Metadata
from kprod.config import ProducerConfig
from kprod.errors import UnknownPartition
from kprod.metrics.recorder import Recorder
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.buffer_pool import BufferPool
from kprod.producer.interceptors import Interceptors, OnDelivery
from kprod.producer.topic_opener import TopicOpener
from kprod.producer.topic_queues import TopicQueues
from kprod.serialization import RecordSerializers
from kprod.threads import current_ident

# By thread: a function that may end its bulk send.
_checks: dict[Hashable, Callable[[], object]] = {}


@contextlib.contextmanager
def stoppable(check: Callable[[], object]) -> Generator[None, None, None]:
    """Let another thread end a bulk send of this thread, between two records.

    Args:
        check: Called every few thousand records; an exception ends the call.

    Yields:
        Nothing.
    """
    ident = current_ident()
    _checks[ident] = check
    try:
        yield
    finally:
        del _checks[ident]


class SendSupport(SendHooks):
    """The hooks of one producer's send path.

    Attributes:
        config: The producer's settings.
        clock: Clock for waits.
        accumulator: Creates batches and chooses sticky partitions.
        metadata: Provides the partitions' leaders.
        opener: Waits for topics and partitions.
        pool: The memory that sends wait for.
        recorder: Called with the duration of waits, and with failed records.
        serializers: The application's serializers.
        interceptors: The application's interceptors.
        is_on_sender: Whether the calling thread is the sender's.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        *,
        config: ProducerConfig,
        clock: Clock,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        opener: TopicOpener,
        pool: BufferPool,
        recorder: Recorder,
        serializers: RecordSerializers,
        interceptors: Interceptors,
        is_on_sender: Callable[[], bool],
    ) -> None:
        """Keep the parts; `append` is the accumulator's own method, to run no bytecode for it."""
        self.config: ProducerConfig = config
        self.clock: Clock = clock
        self.accumulator: RecordAccumulator = accumulator
        self.metadata: Metadata = metadata
        self.opener: TopicOpener = opener
        self.pool: BufferPool = pool
        self.recorder: Recorder = recorder
        self.serializers: RecordSerializers = serializers
        self.interceptors: Interceptors = interceptors
        self.is_on_sender: Callable[[], bool] = is_on_sender
        self.make_batch = accumulator.make_batch  # type: ignore[method-assign]

    def open_topic(self, topic: str, timeout_ms: int) -> TopicRoutes:
        """Wait until the topic's partitions are known."""
        started_ns = self.clock.now_ns()
        try:
            return self.opener.open(topic, self._patience_ms(timeout_ms))
        finally:
            self.recorder.waited_for_metadata(self.clock.now_ns() - started_ns)

    def await_partition(self, routes: TopicRoutes, partition: int, timeout_ms: int) -> None:
        """Refresh the metadata once, since the partition may be new."""
        self.opener.await_partition(routes, partition, self._patience_ms(timeout_ms))

    def wait_for_memory(self, waiter: MemoryWaiter, timeout_ms: int) -> None:
        """Wait in the pool's queue."""
        started_ns = self.clock.now_ns()
        in_vain = True
        try:
            self.pool.wait_for(waiter, self._patience_ms(timeout_ms))
            in_vain = False
        finally:
            waited_ns = self.clock.now_ns() - started_ns
            self.recorder.waited_for_memory(waited_ns, in_vain=in_vain)

    def roll_sticky(self, routes: TopicRoutes) -> None:
        """Choose another sticky partition."""
        assert isinstance(routes, TopicQueues)  # noqa: S101 - the accumulator makes no other
        self.accumulator.roll_sticky(routes)

    def choose_partition(self, routes: TopicRoutes, key: Any, value: Any) -> int:  # noqa: ANN401, ARG002
        """Call the configured partitioner."""
        snapshot = self.metadata.snapshot
        everyone = range(routes.partition_count)
        available = [p for p in everyone if snapshot.leader_of(routes.name, p) is not None]
        partitioner = self.config.partitioner
        assert callable(partitioner)  # noqa: S101 - has_partitioner says so
        partition = partitioner(key, everyone, available)
        if not isinstance(partition, SupportsIndex) or partition not in everyone:
            raise UnknownPartition(
                f"the partitioner chose {partition!r} for topic {routes.name!r}, which has"
                f" partitions 0 to {len(everyone) - 1}"
            )
        return partition

    def serialize(self, topic: str, key: Any, value: Any, headers: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401
        """Call the configured serializers."""
        return self.serializers.run(topic, key, value, headers)

    def intercept(self, record: tuple[Any, ...], on_delivery: OnDelivery | None) -> tuple[Any, ...]:
        """Pass a record through the interceptors."""
        return *self.interceptors.on_send(record), self.interceptors.watching(on_delivery)

    def too_large_text(self, topic: str, size_bytes: int) -> str:
        """Create the error text; it has both sizes and the setting."""
        setting, limit_bytes = "max_request_size", self.config.max_request_size
        if self.pool.usable_bytes < limit_bytes:
            setting, limit_bytes = "buffer_memory", self.config.buffer_memory
        return (
            f"a record for {topic!r} takes up to {size_bytes} bytes encoded, and"
            f" {setting}={limit_bytes} allows no more; raise it, and the topic's max.message.bytes"
            " with it, or send less in one record"
        )

    def note_failed(self, topic: str, record_count: int) -> None:
        """Count failed records, as the sender does."""
        self.recorder.failed(topic, record_count)

    def check_signals(self) -> None:
        """Let signal handlers and other threads run, as entering any Python function does.

        A call that was made `stoppable` may end here.
        """
        if _checks and (check := _checks.get(current_ident())) is not None:
            check()

    def _patience_ms(self, timeout_ms: int) -> int:
        """Return how long to wait: 0 on the sender's thread, which would wait for itself."""
        return 0 if self.is_on_sender() else timeout_ms
