"""One producer of a run: its sender as an actor, and the records sent through it."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import kprod
from kprod.compression import Buffer, compressor
from kprod.errors import ClosedError
from kprod.metrics.state_log import Event
from kprod.model import Codec
from kprod.network.connection_context import NetworkIO
from kprod.producer.wiring import Environment
from tests.sim.client_io import Shortage, SimResolver, SimSelector, SimSocketWait
from tests.sim.draw import Draw
from tests.sim.oracle import Outcome, Promises, Sent
from tests.sim.plan import Entry
from tests.sim.scheduler import MS, Actor, LivelockError
from tests.sim.tap import ClientTap
from tests.sim.undelivered import Covered
from tests.sim.workload import TICK_NS

if TYPE_CHECKING:
    from tests.sim.world import World


FIRST_SEQUENCE = (1 << 31) - 5
FIRST_EPOCH = 32_766
OWN_SETTINGS = frozenset({"first_sequence", "first_epoch"})
"""A plan's parameters of a producer besides its settings: sequences and epochs near their ends."""


class Client:
    """One producer of a run, and the records sent through it.

    Attributes:
        number: Its number among all producers of the run.
        producer: Under test.
        records: Accepted records, in order.
        receipts: Receipts of bulk sends.
        futures: By record, for those that were sent alone.
        async_producer: The same engine for asyncio.
        unheard: Names of records in bulk calls whose tasks were cancelled.
        in_calls: Records in calls that have not returned.
        answers: Records that callbacks have sent.
        is_over: It was closed.
        is_replaced: Another is in its place, or soon will be.
    """

    answers_max = 20

    def __init__(self, world: "World", number: int, settings: dict[str, object]) -> None:
        self.number = number
        self.settings = settings
        self.records: list[Sent] = []
        self.receipts: list[kprod.SendReceipt] = []
        self.futures: dict[bytes, kprod.RecordFuture] = {}
        self.unheard: set[bytes] = set()
        self.in_calls = 0
        self.answers = 0
        self.is_over = False
        self.is_replaced = False
        self.is_threaded = world.plan.mode != "engine"
        self.has_failed = False  # an error that no record can be sent after
        self.told_last = Outcome(-1, -1)
        self.telling = 0  # callbacks that run
        self.slow_ns = 0  # what its callbacks have slept
        self.slow_until_ns = 0  # when the last of them has slept enough
        self._has_id = False
        self.freezes: list[tuple[int, int]] = []  # from, until
        self._world = world
        self._made = 0
        self._codecs = 0
        scheduler = world.scheduler
        self.shortage = Shortage()
        self.selector = SimSelector(
            scheduler,
            Draw(world.plan.seed, f"ready/{number}"),
            self.shortage,
            can_pause=self.is_threaded,
        )
        self.resolver = SimResolver(scheduler, self.selector.wakeup)
        io = NetworkIO(
            selector=self.selector,
            resolver=self.resolver,
            connect=partial(world.network.connect, number, self.shortage),
            make_socket_wait=partial(SimSocketWait, scheduler),
        )
        self.producer = kprod.Producer(
            {
                "bootstrap_servers": world.bootstrap_servers,
                "client_id": f"sim-{number}",
                "max_block_ms": 0,
                **{name: settings[name] for name in settings.keys() - OWN_SETTINGS},
            },
            environment=Environment(
                clock=scheduler.clock,
                rng=random.Random(f"{world.plan.seed}/jitter/{number}"),
                io=lambda _: io,
                is_threaded=self.is_threaded,
                admits_interpreted=True,
                make_codec=self._make_codec,
                shared_bytes_min=0,
                poisons=True,
                on_note=self._note,
            ),
        )
        self.async_producer = kprod.AsyncProducer(engine=self.producer)
        config = self.producer._kprod.config
        self.tap = ClientTap(
            world.find,
            config,
            lambda: scheduler.now_ns,
            world.topics.note_metadata,
            world.count,
        )
        if not any(entry["kind"] == "wall_clock" for entry in world.plan.faults):
            clock = scheduler.clock
            self.tap.wall_offset_ms = clock.timestamp_ms() - clock.now_ms()
        if not self.is_threaded:
            self._actor = Actor(scheduler, self._run)

    def _make_codec(self, codec: Codec, level: int | None) -> Callable[[Buffer], Buffer]:
        """Bind a codec that gives way to all other threads, as one does that releases the GIL."""
        compress = compressor(codec, level)
        scheduler = self._world.scheduler
        self._codecs += 1
        where = "on the sender's thread" if self._codecs == 1 else "beside the sender"

        def compress_and_yield(plain: Buffer) -> Buffer:
            current = scheduler.current
            if self.is_threaded and current is not None:
                self._world.count(f"compression {where} let other threads run")
                current.sleep(scheduler.now_ns)
            return compress(plain)

        return compress_and_yield

    def _note(self, event: Event, fields: Mapping[str, object]) -> None:
        """Count a change of state, and let sequences and epochs begin where the plan says."""
        self._world.count(f"event {event.text}")
        if event is Event.DISCONNECTED and not isinstance(fields["reason"], ClosedError):
            self._world.count("connection was given up")
        if event is Event.FAILED:
            self.has_failed = True
        if event is not Event.PRODUCER_ID or self._has_id:
            return
        self._has_id = True
        engine = self.producer._kprod
        if self.settings.get("first_epoch"):
            engine.transaction_manager.producer_epoch = FIRST_EPOCH
        if self.settings.get("first_sequence"):
            for queue in engine.accumulator.queues():
                queue.next_sequence = FIRST_SEQUENCE

    def _run(self) -> None:
        engine = self.producer._kprod
        try:
            while not self.is_over:
                engine.run_once(self._world.scheduler.clock.now_ms())
        except MemoryError:
            self.has_failed = True  # the fault may end a producer, which settles every record
        except Exception as error:  # noqa: BLE001 - a sender that ends by itself is a finding
            invariant = "I12" if isinstance(error, LivelockError) else "I8"
            self._world.find(invariant, f"the sender of sim-{self.number} died: {error!r}")
        covered = Covered(self._world, self)
        self._world.closed(self, covered, self.producer.close(0))

    def end(self, timeout_s: float = 0) -> None:
        """Close the producer: in the calling thread, or between two turns of its sender."""
        if not self.is_threaded:
            self.is_over = True
            self.selector.wakeup()
        elif not self.is_over:
            self.is_over = True
            covered = Covered(self._world, self)
            self._world.closed(self, covered, self.producer.close(timeout_s))

    @property
    def is_lost(self) -> bool:
        """Whether it can send nothing any more, for a reason that is a fault's."""
        is_dead = not self.producer._kprod.is_open and not self.is_over
        return self.has_failed or (is_dead and self.shortage.failed > 0)

    @property
    def is_on_sender(self) -> bool:
        """Whether the caller runs on the sender's thread."""
        return self.producer._kprod.is_on_sender()

    @property
    def has_ended(self) -> bool:
        """Whether the sender has taken its last steps."""
        return self.producer._kprod.thread.has_ended

    def freeze(self, duration_ms: int) -> None:
        """Let the sender not run for a while, as a stopped process does not."""
        sender = self.selector.sleeper
        # In the middle of a turn even a deadline that was looked at may pass before the write.
        if sender is None or not self.selector.is_asleep:
            return
        until_ns = self._world.scheduler.now_ns + duration_ms * MS
        sender.frozen_until_ns = max(sender.frozen_until_ns, until_ns)
        self.freezes.append((self._world.scheduler.now_ns, sender.frozen_until_ns))
        self._world.count("freeze")

    def sleep_in_callback(self, duration_ms: int) -> None:
        """Let the sender's thread sleep in a callback of the application."""
        world = self._world
        actor = world.scheduler.current
        if actor is None:
            return
        world.happened("slow callback")
        duration_ns = duration_ms * MS
        self.slow_ns += duration_ns
        end_ns = world.scheduler.now_ns + duration_ns
        self.slow_until_ns = end_ns
        while world.scheduler.now_ns < end_ns:
            actor.sleep(end_ns)

    def thawed_ns(self, instant_ns: int) -> int:
        """Return when the sender ran next: at an instant, or at the end of a freeze."""
        return self._freeze_end_ns(self._freeze_end_ns(instant_ns) + self.slow_ns)

    def _freeze_end_ns(self, instant_ns: int) -> int:
        for from_ns, until_ns in self.freezes:
            if from_ns - TICK_NS <= instant_ns <= until_ns:
                instant_ns = until_ns
        return instant_ns

    def new_record(self, topic: str, size: int, partition: int = -1) -> Sent:
        """Name a record and make its value."""
        name = b"%d-%d" % (self.number, self._made)
        value = (name + b"|").ljust(size, b".")
        current = self._world.scheduler.current
        caller = current.number if self.is_threaded and current is not None else 0
        record = Sent(name, self.number, caller, self._made, topic, value, partition=partition)
        record.invoked_ns = self._world.scheduler.now_ns
        record.partition_count = self._world.topics.counts[topic]
        self._made += 1
        return record

    def renumber(self, record: Sent) -> None:
        """Note that a record was accepted now, whenever its send began."""
        record.order = self._made
        self._made += 1

    def new_records(self, entry: Entry) -> list[Sent]:
        """Name the records of a bulk send and make their values."""
        records = [self.new_record(entry["topic"], entry["size"]) for _ in range(entry["count"])]
        for record in records:
            record.is_alone = False
        return records

    @property
    def waits_for_epoch(self) -> bool:
        """Whether every partition waits until no batch has an unknown outcome (departure 4)."""
        return self.producer._kprod.transaction_manager.bump_is_pending

    @property
    def promises(self) -> Promises:
        """The guarantees of the settings."""
        config = self.producer._kprod.config
        is_idempotent = config.enable_idempotence
        in_flight = config.max_in_flight_requests_per_connection
        return Promises(
            is_idempotent=is_idempotent,
            keeps_order=is_idempotent or (in_flight == 1 and config.retries == 0),
            keeps_acknowledged=config.acks == -1,
        )
