"""Brokers die under load, and every promise about every record is checked against the log's files.

Three brokers of Apache Kafka, replication 3, two in sync at least. A thread sends at a rate that
changes every second. Brokers are killed and started again in turn, each only when every in-sync set
is full again, so that Kafka itself loses nothing acknowledged. The next victim is struck in a
moment when requests to it are in flight, and how many is written down.

A patient producer outlives every outage, and all it sends is acknowledged. An impatient one has a
delivery timeout below an outage: until the dead broker's session is over nothing that it led, and
nothing that waits for it as a replica, is acknowledged. Then sends fail, and each failure must say
truly whether its record may be in the log. For that one every other victim is frozen, not killed:
its connections stay open, and requests written to it may be served when it wakes.

Thread-safety: one `Chaos` a thread; it has a sending thread of its own.
"""

import random
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import kprod
from kprod.clock import SystemClock
from kprod.errors import KprodError
from kprod.record.reader import read_records
from tests.chaos.ledger import Ledger, Verdict
from tests.plugins.kafka_nodes import KafkaNodes

IMPATIENCE: Mapping[str, object] = {
    "request.timeout.ms": 1_000,
    "delivery.timeout.ms": 1_500,  # half of a broker's session
}
BURST_S = 0.01
WAIT_FOR_FLIGHT_S = 3.0  # for requests in flight to the broker that is to be killed
CLOSE_S = 180.0
_NUMBER = struct.Struct(">iq")
_PADDING = b"x" * 88  # with the number, 100 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosPlan:
    """How long and how hard.

    Attributes:
        duration_s: Duration of sending.
        kill_every_s: From one kill to the next, at least; in-sync sets are waited for besides.
        rates: Least and most records each second.
        partitions: Number of the topic's partitions.
        down_s: Least and most seconds that a broker stays dead.
        freezes: Whether every other victim is frozen instead of killed.
        topic: Name of the topic, which only this run uses.
        settings: The producer's.
    """

    duration_s: float
    kill_every_s: float
    rates: tuple[int, int] = (3_000, 20_000)
    partitions: int = 6
    down_s: tuple[float, float] = (1.0, 5.0)
    seed: int = 7
    freezes: bool = False
    topic: str = "chaos"
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class ChaosReport:
    """The results of a run.

    Attributes:
        in_flight_at_kill: Requests in flight to the victim, for each kill.
        verdict: The ledger's verdict.
        undelivered: The result of `close`.
        reasons: Texts of failures, with their numbers.
    """

    duration_s: float
    in_flight_at_kill: list[int]
    verdict: Verdict
    undelivered: int
    reasons: Mapping[str, int]

    def text(self) -> str:
        """A few lines for a person."""
        verdict = self.verdict
        busy = sum(count > 0 for count in self.in_flight_at_kill)
        return (
            f"{verdict.sent:,} records in {self.duration_s:.0f} s"
            f" ({verdict.sent / self.duration_s:,.0f}/s), {len(self.in_flight_at_kill)} kills,"
            f" {busy} with requests in flight {self.in_flight_at_kill}\n"
            f"acknowledged {verdict.acknowledged:,}, possibly persisted"
            f" {verdict.possibly_persisted}, not persisted {verdict.not_persisted}, unresolved"
            f" {verdict.unresolved}, resolved twice {verdict.resolved_twice}\n"
            f"lost {verdict.lost}, misplaced {verdict.misplaced}, doubled {verdict.doubled},"
            f" out of order {verdict.out_of_order}, untrue {verdict.untrue}\n"
            f"failures: {dict(self.reasons)}"
        )


class Chaos:
    """One run."""

    def __init__(self, nodes: KafkaNodes, plan: ChaosPlan) -> None:
        """Prepare; `nodes` are three brokers that run."""
        self._nodes = nodes
        self._plan = plan
        self._source = random.Random(plan.seed)
        self._ledger = Ledger(plan.partitions)
        self._clock = SystemClock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []

    def run(self) -> ChaosReport:
        """Send, kill, restart, check."""
        nodes, plan = self._nodes, self._plan
        nodes.create_topic(
            plan.topic,
            partitions=plan.partitions,
            replication=3,
            settings={"min.insync.replicas": "2", "unclean.leader.election.enable": "false"},
        )
        producer = kprod.Producer(
            {"bootstrap.servers": nodes.bootstrap_servers, "client.id": "chaos", **plan.settings}
        )
        began_ms = self._clock.now_ms()
        sender = threading.Thread(target=self._send, args=(producer,), name="chaos-sender")
        sender.start()
        in_flight: list[int] = []
        try:
            while self._seconds_since(began_ms) < plan.duration_s and not self._errors:
                self._stop.wait(plan.kill_every_s)
                in_flight.append(self._strike(producer, len(in_flight)))
        finally:
            self._stop.set()
            sender.join()
            duration_s = self._seconds_since(began_ms)
            undelivered = producer.close(CLOSE_S)
        if self._errors:
            raise self._errors[0]
        nodes.wait_in_sync(plan.topic)
        verdict = self._ledger.compare(self._log(p) for p in range(plan.partitions))
        return ChaosReport(duration_s, in_flight, verdict, undelivered, self._ledger.reasons)

    def _strike(self, producer: kprod.Producer, turn: int) -> int:
        nodes, topic = self._nodes, self._plan.topic
        nodes.wait_in_sync(topic)
        victim = nodes.broker_ids[turn % len(nodes.broker_ids)]
        count = self._await_flight(producer, victim)
        down_s = self._source.uniform(*self._plan.down_s)
        if self._plan.freezes and turn % 2:
            nodes.pause(victim)
            self._stop.wait(down_s)
            nodes.resume(victim)
        else:
            nodes.kill(victim)
            self._stop.wait(down_s)
            nodes.restart(victim)
        nodes.wait_in_sync(topic)
        return count

    def _await_flight(self, producer: kprod.Producer, victim: int) -> int:
        """Wait until requests are in flight to a broker, and count them."""
        began_ms = self._clock.now_ms()
        client = producer._kprod.client
        while not (count := client.connections.in_flight_count(victim)):
            if self._seconds_since(began_ms) > WAIT_FOR_FLIGHT_S:
                break
            self._stop.wait(0.0005)
        return count

    def _send(self, producer: kprod.Producer) -> None:
        """Bursts every 10 ms, at a rate drawn again each second."""
        source = random.Random(self._plan.seed + 1)
        try:
            while not self._stop.is_set():
                self._send_for_a_second(producer, source, source.randint(*self._plan.rates))
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self._errors.append(error)

    def _send_for_a_second(
        self, producer: kprod.Producer, source: random.Random, rate: int
    ) -> None:
        ends_ms = self._clock.now_ms() + 1_000
        while not self._stop.is_set() and self._clock.now_ms() < ends_ms:
            began_ms = self._clock.now_ms()
            self._burst(producer, source, round(rate * BURST_S))
            self._stop.wait(max(BURST_S - (self._clock.now_ms() - began_ms) / 1_000, 0))

    def _burst(self, producer: kprod.Producer, source: random.Random, count: int) -> None:
        for _ in range(count):
            partition = source.randrange(self._plan.partitions)
            number, settle = self._ledger.open(partition)
            value = _NUMBER.pack(partition, number) + _PADDING
            try:
                producer.send(self._plan.topic, value, partition=partition, on_delivery=settle)
            except KprodError as error:
                self._ledger.take_back(partition)
                self._ledger.reasons[f"send: {type(error).__name__}"] += 1

    def _log(self, partition: int) -> Iterator[tuple[int, int]]:
        """(Offset, number) of each record, from the files of the partition's leader."""
        leader = self._nodes.partitions(self._plan.topic, broker=1)[partition].leader_id
        for path in self._nodes.log_files(self._plan.topic, partition, broker=leader):
            for record in read_records(path.read_bytes()):
                assert record.value is not None
                found, number = _NUMBER.unpack_from(record.value)
                assert found == partition, "a record of another partition"
                yield record.offset, number

    def _seconds_since(self, began_ms: int) -> float:
        return (self._clock.now_ms() - began_ms) / 1_000
