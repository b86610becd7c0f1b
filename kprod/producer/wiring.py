"""Creates the parts of a producer and connects them.

Each function creates a few parts and takes only earlier ones; later parts are reached through
methods of the engine.

Thread-safety: `wired` from any thread.
"""

import itertools
import random
from collections.abc import Callable
from functools import partial

from kprod._core import checksum
from kprod._core.send.send_path import SendPath
from kprod.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.compression import compressor
from kprod.config import NetworkSettings, ProducerConfig
from kprod.lifetime import open_clients
from kprod.metrics.recorder import MetricsRecorder, SilentRecorder
from kprod.metrics.state_log import OnNote, StateLog
from kprod.model import Acks, Codec
from kprod.network.client import NetworkClient
from kprod.network.compiled_modules import COMPILED_TLS_MODULES, interpreted_modules
from kprod.network.connection_context import NetworkIO, system_io
from kprod.network.security import Security
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.batch_compression.parallel_compressor import (
    SHARED_BYTES_MIN,
    MakeCodec,
    ParallelCompressor,
    default_thread_count,
)
from kprod.producer.buffer_pool import BufferPool
from kprod.producer.closing import Closing, ClosingParts
from kprod.producer.delivery import Delivery
from kprod.producer.direct_path.direct_path import DirectPath
from kprod.producer.direct_path.send_modules import SEND_MODULES
from kprod.producer.interceptors import Interceptors
from kprod.producer.partitioner import ROUND_ROBIN, StickyPartitioner, key_rule
from kprod.producer.producer_engine import ProducerEngine
from kprod.producer.send_rules import SendRules
from kprod.producer.send_support import SendSupport
from kprod.producer.sender import Sender
from kprod.producer.topic_opener import TopicOpener
from kprod.producer.transaction.manager import TransactionManager
from kprod.serialization import RecordSerializers
from kprod.timer.timer import Timer

_numbers = itertools.count(1)


class Environment:
    """The environment of a producer, which tests and simulations replace.

    Attributes:
        clock: Monotonic and wall clock.
        rng: Random numbers for jitter and sticky partitions.
        io: Opens selector, resolver and sockets.
        is_threaded: Whether to start the sender's thread; if not, the caller runs `run_once`.
        has_metrics: Whether to count; False serves to measure the cost of counting.
        admits_interpreted: Whether the direct path is used although modules on it are interpreted
            (`COMPILED_MODULES`), for simulation and tracing, where no signal handler may wait for
            the producer or raise.
        make_codec: Binds a codec and its level; `kprod.compression.compressor`.
        shared_bytes_min: Least size of batches that are compressed by several threads, in bytes.
        poisons: Whether to fill returned memory with a pattern (0xDD), which shows on the wire if
            it is sent nevertheless.
        on_note: Called with each state change of the producer and its connections; None for none.
    """

    __slots__ = (
        *("admits_interpreted", "clock", "has_metrics", "io", "is_threaded", "on_note"),
        *("make_codec", "poisons", "rng", "shared_bytes_min"),
    )

    def __init__(  # noqa: PLR0913 - each has a default
        self,
        *,
        clock: SystemClock | None = None,
        rng: random.Random | None = None,
        io: Callable[[NetworkSettings], NetworkIO] = system_io,
        is_threaded: bool = True,
        has_metrics: bool = True,
        admits_interpreted: bool = False,
        make_codec: MakeCodec = compressor,
        shared_bytes_min: int = SHARED_BYTES_MIN,
        poisons: bool = False,
        on_note: OnNote | None = None,
    ) -> None:
        self.clock: SystemClock = clock or SystemClock()
        self.rng: random.Random = rng or random.Random()  # noqa: S311 - jitter
        self.io: Callable[[NetworkSettings], NetworkIO] = io
        self.is_threaded: bool = is_threaded
        self.has_metrics: bool = has_metrics
        self.admits_interpreted: bool = admits_interpreted
        self.make_codec: MakeCodec = make_codec
        self.shared_bytes_min: int = shared_bytes_min
        self.poisons: bool = poisons
        self.on_note: OnNote | None = on_note


def wired(config: ProducerConfig, world: Environment) -> ProducerEngine:
    """Create a producer's engine; `start` starts it.

    Args:
        config: The topic's settings.
        world: The environment.

    Returns:
        The engine, which accepts records once it is started.
    """
    client_id = config.client_id or f"producer-{next(_numbers)}"
    engine = ProducerEngine(config, world.clock, client_id)
    engine.state_log = StateLog(client_id, world.on_note)
    engine.recorder = MetricsRecorder(world.clock) if world.has_metrics else SilentRecorder()
    # Vital: an interrupted task may leave a record unsettled; the sender then settles all.
    engine.timer = Timer(world.clock.now_ms(), is_vital=True)
    _add_memory(engine, world)
    _add_path(engine)
    _add_network(engine, world)
    _add_delivery(engine, world)
    _add_sender(engine, world)
    if world.is_threaded:
        _open_direct_path(engine, world)
    _add_ending(engine)
    return engine


def _add_memory(engine: ProducerEngine, world: Environment) -> None:
    """Add the parts that hold records and their routes."""
    config = engine.config
    checksum.load()
    engine.metadata = Metadata(config.metadata_settings(), rng=world.rng)
    engine.pool = BufferPool(config.accumulator_settings(), engine.relieve, poisons=world.poisons)
    engine.accumulator = RecordAccumulator(
        config.accumulator_settings(),
        engine.metadata,
        clock=world.clock,
        timer=engine.timer,
        sticky=StickyPartitioner(
            config.partitioner_settings(), engine.metadata, clock=world.clock, rng=world.rng
        ),
        on_expired=engine.expire,
    )
    engine.opener = TopicOpener(
        engine.metadata,
        engine.accumulator,
        clock=world.clock,
        wake=engine.wake,
        max_block_ms=config.max_block_ms,
    )


def _add_path(engine: ProducerEngine) -> None:
    """Add the send path and its Python part."""
    config = engine.config
    engine.support = SendSupport(
        config=config,
        clock=engine.clock,
        accumulator=engine.accumulator,
        metadata=engine.metadata,
        opener=engine.opener,
        pool=engine.pool,
        recorder=engine.recorder,
        serializers=RecordSerializers(config.key_serializer, config.value_serializer),
        interceptors=Interceptors(config.interceptors),
        is_on_sender=engine.is_on_sender,
    )
    engine.path = SendPath(
        engine.support,
        engine.pool,
        engine.clock,
        engine.accumulator.inbox,
        engine.accumulator.topics,
        _send_rules(config, engine.pool),
    )


def _send_rules(config: ProducerConfig, pool: BufferPool) -> SendRules:
    rule = key_rule(config.partitioner_settings())
    return SendRules(
        max_block_ms=config.max_block_ms,
        # A record must fit whole chunks (`usable_bytes`); otherwise it would wait for memory
        # forever.
        record_bytes_max=min(config.max_request_size, pool.usable_bytes),
        has_interceptors=bool(config.interceptors),
        has_serializers=bool(config.key_serializer or config.value_serializer),
        has_partitioner=callable(config.partitioner),
        takes_turns=config.partitioner == ROUND_ROBIN,
        key_hash=rule.key_hash,
        hashed_key_bytes_min=rule.bytes_min,
    )


def _add_network(engine: ProducerEngine, world: Environment) -> None:
    """Add the connections."""
    network = engine.config.network_settings()._replace(client_id=engine.client_id)
    security = Security(engine.config.security)  # before any socket is opened, since it may raise
    engine.client = NetworkClient(
        network,
        engine.metadata,
        world.io(network),
        clock=world.clock,
        timer=engine.timer,
        rng=world.rng,
        recorder=engine.recorder,
        state_log=engine.state_log,
        security=security,
    )
    engine.path.wake = engine.client.waker


def _add_delivery(engine: ProducerEngine, world: Environment) -> None:
    """Add the parts that assign sequences to batches, and that settle them."""
    engine.transaction_manager = TransactionManager(
        is_idempotent=engine.config.enable_idempotence, state_log=engine.state_log
    )
    engine.delivery = Delivery(
        engine.config.sender_settings(),
        accumulator=engine.accumulator,
        transaction_manager=engine.transaction_manager,
        metadata=engine.metadata,
        timer=engine.timer,
        clock=world.clock,
        rng=world.rng,
        recorder=engine.recorder,
    )


def _add_sender(engine: ProducerEngine, world: Environment) -> None:
    """Add the sender."""
    config = engine.config
    engine.sender = Sender(
        config.sender_settings(),
        config.compression_settings(),
        compressor=_compressor(engine, world),
        accumulator=engine.accumulator,
        client=engine.client,
        delivery=engine.delivery,
        transaction_manager=engine.transaction_manager,
        metadata=engine.metadata,
        timer=engine.timer,
        clock=world.clock,
        rng=world.rng,
        path=engine.path,
        reject=engine.reject,
        recorder=engine.recorder,
        state_log=engine.state_log,
    )


def _compressor(engine: ProducerEngine, world: Environment) -> ParallelCompressor | None:
    settings = engine.config.compression_settings()
    if settings.compression_type is Codec.NONE:
        return None
    codec = settings.compression_type
    thread_count = settings.compression_threads or default_thread_count(codec)
    # A caller of `run_once` is to be all that runs.
    return ParallelCompressor(
        partial(world.make_codec, codec, settings.level),
        engine.start_worker,
        thread_count=thread_count if world.is_threaded else 1,
        shared_bytes_min=world.shared_bytes_min,
    )


def _open_direct_path(engine: ProducerEngine, world: Environment) -> None:
    """Enable the direct path, if the settings allow it and all its modules are compiled."""
    config = engine.config
    needs_no_sender = not config.linger_ms and config.compression_type is Codec.NONE
    uses_tls = config.security.uses_tls
    names = SEND_MODULES + COMPILED_TLS_MODULES if uses_tls else SEND_MODULES
    is_compiled = world.admits_interpreted or not interpreted_modules(names)
    if (
        not needs_no_sender
        or config.acks is Acks.NONE
        or not engine.client.io.selector.can_pause
        or not is_compiled
    ):
        return
    direct_path = DirectPath(
        engine.sender,
        engine.client,
        engine.accumulator,
        clock=engine.clock,
        path=engine.path,
        request_timeout_ms=min(config.request_timeout_ms, config.delivery_timeout_ms),
    )
    direct_path.uses_tls = uses_tls
    engine.client.direct_path = engine.path.direct_path = direct_path


def _add_ending(engine: ProducerEngine) -> None:
    """Add the parts that flush and close, and the sender's thread."""
    engine.closing = Closing(
        engine.path,
        ClosingParts(
            clock=engine.clock,
            metadata=engine.metadata,
            pool=engine.pool,
            accumulator=engine.accumulator,
            client=engine.client,
            sender=engine.sender,
        ),
        client_id=engine.client_id,
        state_log=engine.state_log,
        last_steps=(engine.support.interceptors.close, partial(open_clients.unwatch, engine)),
    )
