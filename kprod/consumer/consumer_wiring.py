"""Creates the parts of a consumer and connects them.

Thread-safety: any thread.
"""

import itertools
import random
from collections.abc import Callable

from kprod._core import checksum
from kprod.clock import SystemClock
from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.config import NetworkSettings
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.consumer_engine import ConsumerEngine
from kprod.consumer.deserializers import RecordDeserializers
from kprod.consumer.direct_read import DirectRead
from kprod.consumer.fetch_buffer import FetchBuffer
from kprod.consumer.fetch_listener import FetchListener
from kprod.consumer.fetch_plan import FetchPlan
from kprod.consumer.fetch_repeat import FetchRepeat
from kprod.consumer.fetcher import Fetcher
from kprod.consumer.group.group_starts import StartListener
from kprod.consumer.group_wiring import add_group
from kprod.consumer.hand_over import HandOver
from kprod.consumer.loop import ConsumerLoop, LoopParts
from kprod.consumer.offset_lookup import OffsetLookup
from kprod.consumer.offset_reset import OffsetReset
from kprod.consumer.open_block import DecodingTerms
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.position import AssignedPartition
from kprod.consumer.read_modules import READ_MODULES
from kprod.consumer.read_replica import ReadReplicas
from kprod.consumer.topic_listing import TopicListing
from kprod.consumer.topic_watch import TopicWatch
from kprod.consumer.truncation import Truncation
from kprod.errors import KprodError
from kprod.lifetime.loop_thread import LoopThread
from kprod.metrics.state_log import OnNote, StateLog
from kprod.network.client import NetworkClient
from kprod.network.compiled_modules import interpreted_modules
from kprod.network.connection_context import NetworkIO, system_io
from kprod.network.security import Security
from kprod.timer.timer import Timer

_numbers = itertools.count(1)


class ConsumerEnvironment:
    """The environment of a consumer, which tests and simulations replace.

    Attributes:
        clock: Monotonic and wall clock.
        rng: Random numbers for jitter.
        admits_interpreted: Whether the direct path is used although modules on it are interpreted
            (`COMPILED_MODULES`), for tracing.
        io: Opens selector, resolver and sockets.
        is_threaded: Whether to start the I/O thread; if not, waiting threads run the loop.
        on_note: Called with each state change of the consumer and its connections.
    """

    __slots__ = ("admits_interpreted", "clock", "io", "is_threaded", "on_note", "rng")

    def __init__(
        self,
        *,
        admits_interpreted: bool = False,
        clock: SystemClock | None = None,
        rng: random.Random | None = None,
        io: Callable[[NetworkSettings], NetworkIO] = system_io,
        is_threaded: bool = True,
        on_note: OnNote | None = None,
    ) -> None:
        self.admits_interpreted: bool = admits_interpreted
        self.clock: SystemClock = clock or SystemClock()
        self.rng: random.Random = rng or random.Random()  # noqa: S311 - jitter
        self.io: Callable[[NetworkSettings], NetworkIO] = io
        self.is_threaded: bool = is_threaded
        self.on_note: OnNote | None = on_note


def wired(config: ConsumerConfig, world: ConsumerEnvironment) -> ConsumerEngine:
    """Create a consumer's engine; `start` starts it.

    Args:
        config: The topic's settings.
        world: The environment.

    Returns:
        The engine, not started.

    Raises:
        ConfigError: A certificate file or text cannot be used, or an extra is not installed.
    """
    client_id = config.client_id or f"consumer-{next(_numbers)}"
    parts = ConsumerParts(config, world.clock, client_id)
    parts.state_log = StateLog(client_id, world.on_note)
    checksum.load()
    _add_network(parts, world)
    engine = ConsumerEngine(parts)
    _add_reading(engine)
    _add_questions(engine, world)
    _add_loop(engine, world)
    _open_direct_read(parts, world)
    parts.thread = LoopThread(
        "consumer",
        parts.loop.run_once,
        world.clock,
        on_death=engine.die,
        last_steps=engine.last_steps(),
    )
    parts.mailbox.wake = parts.client.wakeup
    return engine


def _open_direct_read(parts: ConsumerParts, world: ConsumerEnvironment) -> None:
    """Enable the direct path, if the settings allow it and all its modules are compiled."""
    config = parts.config
    is_compiled = world.admits_interpreted or not interpreted_modules(READ_MODULES)
    if (
        not world.is_threaded
        or config.security.uses_tls  # the socket has ciphertext
        or not parts.client.io.selector.can_pause
        or not is_compiled
    ):
        return
    parts.client.direct_path = parts.direct_read = DirectRead(
        parts.client,
        parts.fetcher,
        parts.buffer,
        parts.mailbox,
        repeat=FetchRepeat(
            parts.fetcher, parts.metadata, plan=parts.plan, buffer=parts.buffer, topics=parts.topics
        ),
        clock=world.clock,
        request_timeout_ms=config.request_timeout_ms,
    )


def _add_network(parts: ConsumerParts, world: ConsumerEnvironment) -> None:
    config = parts.config
    network = config.network_settings()._replace(client_id=parts.client_id)
    security = Security(config.security)  # before any socket is opened, since it may raise
    parts.metadata = Metadata(config.metadata_settings(), rng=world.rng)
    parts.client = NetworkClient(
        network,
        parts.metadata,
        world.io(network),
        clock=world.clock,
        timer=Timer(world.clock.now_ms()),
        rng=world.rng,
        state_log=parts.state_log,
        security=security,
    )


def _add_reading(engine: ConsumerEngine) -> None:
    parts, config = engine.parts, engine.parts.config
    parts.buffer = FetchBuffer(config.fetch_buffer_memory, parts.mailbox.notify)
    parts.hand_over = HandOver(
        parts.buffer,
        DecodingTerms(
            reads_committed=config.isolation_level == "read_committed",
            check_crcs=config.check_crcs,
            as_views=config.value_type == "memoryview",
            deserializers=RecordDeserializers(config.key_deserializer, config.value_deserializer),
        ),
        parts.assignment,
        engine.selection.on_freed,
    )
    parts.topics = TopicWatch(
        parts.metadata,
        parts.assignment,
        parts.mailbox,
        on_partitions=engine.selection.note_partitions,
        on_count=engine.steps.note_count,
    )


def _backoff_of(config: ConsumerConfig) -> ExponentialBackoff:
    return ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)


def _add_questions(engine: ConsumerEngine, world: ConsumerEnvironment) -> None:
    """Add the parts that query offsets and read records."""
    parts, config = engine.parts, engine.parts.config
    settings = config.fetch_settings()
    parts.lookup = OffsetLookup(
        parts.client,
        parts.metadata,
        backoff=_backoff_of(config),
        rng=world.rng,
        reads_committed=settings.reads_committed,
        timeout_ms=config.request_timeout_ms,
    )
    replicas = ReadReplicas(parts.metadata, config.metadata_max_age_ms)
    parts.plan = FetchPlan(
        settings,
        parts.metadata,
        replicas=replicas,
        backoff=_backoff_of(config),
        rng=world.rng,
    )
    parts.fetcher = Fetcher(
        settings,
        parts.client,
        parts.metadata,
        plan=parts.plan,
        buffer=parts.buffer,
        replicas=replicas,
        listener=FetchListener(
            out_of_range=engine.faults.on_out_of_range,
            truncated=engine.faults.on_truncated,
            failed=lambda partition, error: parts.topics.note(partition.key, error),
            works=parts.topics.works,
        ),
    )


def _add_loop(engine: ConsumerEngine, world: ConsumerEnvironment) -> None:
    parts, config = engine.parts, engine.parts.config

    def on_place(partition: AssignedPartition) -> None:
        parts.topics.forget_problem(partition.key)
        parts.loop.take_place(partition, world.clock.now_ms())
        parts.mailbox.notify()

    def on_error(partition: AssignedPartition, error: KprodError) -> None:
        parts.topics.note(partition.key, error)

    truncation = Truncation(
        parts.client,
        parts.metadata,
        backoff=_backoff_of(config),
        rng=world.rng,
        on_place=on_place,
        on_truncated=engine.faults.on_truncated,
        on_error=on_error,
    )
    reset = OffsetReset(parts.lookup, world.clock, on_place=on_place, on_error=on_error)
    if config.group_id:
        listener = StartListener(
            placed=on_place,
            validating=truncation.begin,
            resetting=reset.begin,
            without_offset=engine.selection.note_missing,
            failed=on_error,
        )
        add_group(engine, world.rng, listener)
    parts.loop = ConsumerLoop(
        LoopParts(
            client=parts.client,
            metadata=parts.metadata,
            mailbox=parts.mailbox,
            assignment=parts.assignment,
            buffer=parts.buffer,
            lookup=parts.lookup,
            reset=reset,
            truncation=truncation,
            plan=parts.plan,
            fetcher=parts.fetcher,
            topics=parts.topics,
            listing=TopicListing(
                parts.client,
                parts.metadata,
                parts.assignment,
                parts.topics,
                max_age_ms=config.metadata_max_age_ms,
                with_internal=not config.exclude_internal_topics,
                backoff=_backoff_of(config),
                rng=world.rng,
                on_names=engine.selection.note_topics,
            ),
            group=parts.group,
        )
    )
