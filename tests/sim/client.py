"""One producer of a run: its sender as an actor, and what was sent through it."""

import random
from functools import partial
from typing import TYPE_CHECKING

import kprod
from kprod.network.connection_context import NetworkIO
from kprod.producer.wiring import Environment
from tests.sim.client_io import SimResolver, SimSelector
from tests.sim.draw import Draw
from tests.sim.oracle import Promises, Sent
from tests.sim.plan import Entry
from tests.sim.scheduler import MS, Actor, LivelockError
from tests.sim.tap import ClientTap
from tests.sim.workload import TICK_NS

if TYPE_CHECKING:
    from tests.sim.world import World


class Client:
    """One producer of a run, and what was sent through it.

    Attributes:
        number: Of all producers of the run.
        producer: Under test.
        records: Accepted records, in order.
        receipts: Of bulk sends.
        futures: By record, for those that were sent alone.
        in_calls: Records in calls that have not returned.
        answers: Records that callbacks have sent.
        is_over: It was closed.
    """

    answers_max = 20

    def __init__(self, world: "World", number: int, settings: dict[str, object]) -> None:
        self.number = number
        self.settings = settings
        self.records: list[Sent] = []
        self.receipts: list[kprod.SendReceipt] = []
        self.futures: dict[bytes, kprod.RecordFuture] = {}
        self.in_calls = 0
        self.answers = 0
        self.is_over = False
        self.is_threaded = world.plan.mode == "threads"
        self.freezes: list[tuple[int, int]] = []  # from, until
        self._world = world
        self._made = 0
        scheduler = world.scheduler
        self.selector = SimSelector(scheduler, Draw(world.plan.seed, f"ready/{number}"))
        self.resolver = SimResolver(scheduler, self.selector.wakeup)
        io = NetworkIO(
            selector=self.selector,
            resolver=self.resolver,
            connect=partial(world.network.connect, number),
        )
        self.producer = kprod.Producer(
            {
                "bootstrap_servers": world.bootstrap_servers,
                "client_id": f"sim-{number}",
                "max_block_ms": 0,
                **settings,
            },
            environment=Environment(
                clock=scheduler.clock,
                rng=random.Random(f"{world.plan.seed}/jitter/{number}"),
                io=lambda _: io,
                is_threaded=self.is_threaded,
                poisons=True,
            ),
        )
        config = self.producer._kprod.config
        self.tap = ClientTap(world.find, config, lambda: scheduler.now_ns)
        if not any(entry["kind"] == "wall_clock" for entry in world.plan.faults):
            clock = scheduler.clock
            self.tap.wall_offset_ms = clock.timestamp_ms() - clock.now_ms()
        if not self.is_threaded:
            self._actor = Actor(scheduler, self._run)

    def _run(self) -> None:
        engine = self.producer._kprod
        try:
            while not self.is_over:
                engine.run_once(self._world.scheduler.clock.now_ms())
        except Exception as error:  # noqa: BLE001 - a sender that ends by itself is a finding
            invariant = "I12" if isinstance(error, LivelockError) else "I8"
            self._world.find(invariant, f"the sender of sim-{self.number} died: {error!r}")
        undelivered = self.producer.close(0)
        self._world.closed(self, undelivered)

    def end(self, timeout_s: float = 0) -> None:
        """Close the producer: in the calling thread, or between two turns of its sender."""
        if not self.is_threaded:
            self.is_over = True
            self.selector.wakeup()
        elif not self.is_over:
            self.is_over = True
            self._world.closed(self, self.producer.close(timeout_s))

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

    def thawed_ns(self, instant_ns: int) -> int:
        """Return when the sender ran next: at an instant, or at the end of a freeze."""
        for from_ns, until_ns in self.freezes:
            if from_ns - TICK_NS <= instant_ns <= until_ns:
                instant_ns = until_ns
        return instant_ns

    def new_record(self, topic: str, size: int) -> Sent:
        """Name a record and make its value."""
        name = b"%d-%d" % (self.number, self._made)
        value = (name + b"|").ljust(size, b".")
        current = self._world.scheduler.current
        caller = current.number if self.is_threaded and current is not None else 0
        record = Sent(name, self.number, caller, self._made, topic, value)
        self._made += 1
        return record

    def new_records(self, entry: Entry) -> list[Sent]:
        """Name the records of a bulk send and make their values."""
        records = [self.new_record(entry["topic"], entry["size"]) for _ in range(entry["count"])]
        for record in records:
            record.is_alone = False
        return records

    def open_count(self) -> int:
        """Return how many records are not settled."""
        alone = sum(self._world.ask(record) is None for record in self.records if record.is_alone)
        return alone + sum(map(_open_in, self.receipts))

    @property
    def waits_for_epoch(self) -> bool:
        """Whether every partition waits until no batch has an unknown outcome (departure 4)."""
        return self.producer._kprod.transaction_manager.bump_is_pending

    @property
    def promises(self) -> Promises:
        """What the settings promise."""
        config = self.producer._kprod.config
        is_idempotent = config.enable_idempotence
        in_flight = config.max_in_flight_requests_per_connection
        return Promises(
            is_idempotent=is_idempotent,
            keeps_order=is_idempotent or (in_flight == 1 and config.retries == 0),
            keeps_acknowledged=config.acks == -1,
        )


def _open_in(receipt: kprod.SendReceipt) -> int:
    """Return how many records of a bulk send are not settled."""
    delivered = sum(count for count, _ in receipt.delivered().values())
    return receipt.record_count - delivered - receipt.failed_count
