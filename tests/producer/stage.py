"""A producer without threads, and brokers whose Produce answers the test gives one by one.

The selector sleeps by moving the manual clock, so a deadline or a wake-up that the producer forgets
costs simulated time that a test can see, and a loop that spins is counted and rejected.
"""

import contextlib
import random
import struct
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import kprod
from kprod.clock import ManualClock
from kprod.errors import KprodError
from kprod.metrics.state_log import OnNote
from kprod.network.address_cursor import SocketAddress
from kprod.network.connection_context import NetworkIO
from kprod.producer.wiring import Environment
from kprod.protocol.api import ApiKey
from tests.network.scripted import (
    ALL_VERSIONS,
    MemorySelector,
    MemoryTransport,
    Peer,
    PeerRequest,
    ScriptedResolver,
    api_keys,
)

TURNS_MAX = 2_000  # per run: more is a loop that does not sleep
_IDENTITY = struct.Struct(">qhii")  # producer id, epoch, base sequence, record count
_IDENTITY_AT = 43


@dataclass(frozen=True, slots=True)
class SentBatch:
    """One batch as a broker received it."""

    topic: str
    partition: int
    raw: bytes

    @property
    def producer_id(self) -> int:
        """Producer id of the header."""
        return self._transaction_manager[0]

    @property
    def epoch(self) -> int:
        """Epoch of the header."""
        return self._transaction_manager[1]

    @property
    def sequence(self) -> int:
        """Sequence of the first record."""
        return self._transaction_manager[2]

    @property
    def count(self) -> int:
        """Records in it."""
        return self._transaction_manager[3]

    @property
    def _transaction_manager(self) -> tuple[int, int, int, int]:
        found: tuple[int, int, int, int] = _IDENTITY.unpack_from(self.raw, _IDENTITY_AT)
        return found


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A Produce request that waits for the test's answer."""

    broker: int
    peer: Peer
    request: PeerRequest
    batches: tuple[SentBatch, ...]

    @property
    def batch(self) -> SentBatch:
        """The only batch."""
        (batch,) = self.batches
        return batch

    def answer(self, code: int = 0, base_offset: int = 0, **fields: Any) -> None:
        """Answer every partition alike."""
        self.respond_to_each(
            {
                (batch.topic, batch.partition): {
                    "error_code": code,
                    "base_offset": -1 if code else base_offset,
                    **fields,
                }
                for batch in self.batches
            }
        )

    def respond_to_each(self, answers: Mapping[tuple[str, int], Mapping[str, Any]]) -> None:
        """Answer partition by partition; those not named are left out."""
        responses = []
        for topic in self.request.body["topic_data"]:
            name = self.topic_name(topic)
            parts = [
                {"index": partition, **answer}
                for (answered, partition), answer in answers.items()
                if answered == name
            ]
            if parts:
                responses.append(
                    {
                        "name": topic.get("name", ""),
                        "topic_id": topic.get("topic_id", uuid.UUID(int=0)),
                        "partition_responses": parts,
                    }
                )
        self.reply({"responses": responses})

    def reply(self, body: Mapping[str, Any]) -> None:
        """Answer with any body."""
        if self.request.version < 13:
            body = {
                **body,
                "responses": [
                    {key: value for key, value in topic.items() if key != "topic_id"}
                    for topic in body["responses"]
                ],
            }
        else:
            body = {
                **body,
                "responses": [
                    {key: value for key, value in topic.items() if key != "name"}
                    for topic in body["responses"]
                ],
            }
        self.peer.respond(self.request, body)

    @staticmethod
    def topic_name(topic: Mapping[str, Any]) -> str:
        """The name of a request's topic, whichever way it is named."""
        name = topic.get("name")
        return name or name_of(topic["topic_id"])


def topic_id_of(name: str) -> uuid.UUID:
    """The id that the stage's brokers give a topic."""
    return uuid.UUID(bytes=name.encode().ljust(16, b"_")[:16])


def name_of(topic_id: uuid.UUID) -> str:
    """The name behind `topic_id_of`."""
    return topic_id.bytes.decode().rstrip("_")


class StageSelector(MemorySelector):
    """Sleeps by moving the clock, never past the horizon of the present run."""

    def __init__(self, clock: ManualClock, serve: Callable[[], object]) -> None:
        """Start awake."""
        super().__init__()
        self.clock = clock
        self.serve = serve
        self.horizon_ms = clock.now_ms()
        self.is_awake = True  # something happened in the latest turn
        self._is_woken = False

    def select(self, timeout_ms: int) -> list[tuple[Any, int]]:
        """Let the brokers act; sleep if nothing is there."""
        self.serve()
        ready = super().select(timeout_ms)
        self.is_awake = bool(ready) or self._is_woken or timeout_ms == 0
        self._is_woken = False
        if not self.is_awake:
            rest_ms = self.horizon_ms - self.clock.now_ms()
            self.clock.advance(min(timeout_ms, max(rest_ms, 0)))
            ready = super().select(0)
        return ready

    def wakeup(self) -> None:
        """End the present or the next sleep."""
        super().wakeup()
        self._is_woken = True


@dataclass
class Brokers:
    """The brokers' default responses; tests change them during a run.

    Attributes:
        leaders: Node ids by topic and partition; −1 is no leader.
        topic_errors: Error codes by topic, in Metadata answers.
        partition_errors: Error codes by topic, of all partitions in Metadata answers.
        has_topic_ids: Whether Metadata answers name topic ids.
        versions: Versions in the ApiVersions response.
        silent: Brokers that accept nothing and answer nothing.
        holds_ids: Whether InitProducerId requests wait in `id_requests`.
    """

    leaders: dict[str, list[int]]
    node_ids: tuple[int, ...]
    topic_errors: dict[str, int] = field(default_factory=dict)
    partition_errors: dict[str, int] = field(default_factory=dict)
    has_topic_ids: bool = True
    versions: Mapping[int, tuple[int, int]] = field(default_factory=lambda: ALL_VERSIONS)
    silent: set[int] = field(default_factory=set)
    holds_ids: bool = False
    producer_id: int = 1_000
    first_epoch: int = 0

    def metadata(self, request: PeerRequest) -> dict[str, Any]:
        """Answer about the topics that are asked for."""
        return {
            "brokers": [
                {"node_id": node_id, "host": "127.0.0.1", "port": 9_000 + node_id}
                for node_id in self.node_ids
            ],
            "cluster_id": "stage",
            "controller_id": self.node_ids[0],
            "topics": [self._topic(topic["name"]) for topic in request.body["topics"] or ()],
        }

    def _topic(self, name: str) -> dict[str, Any]:
        code = self.topic_errors.get(name, 0 if name in self.leaders else 3)
        return {
            "error_code": code,
            "name": name,
            "topic_id": topic_id_of(name) if self.has_topic_ids else uuid.UUID(int=0),
            "partitions": []
            if code
            else [
                {
                    "error_code": self.partition_errors.get(name, 5 if leader < 0 else 0),
                    "partition_index": index,
                    "leader_id": leader,
                    "leader_epoch": 1,
                    "replica_nodes": list(self.node_ids),
                    "isr_nodes": list(self.node_ids),
                }
                for index, leader in enumerate(self.leaders[name])
            ],
        }


class Stage:
    """One producer and its brokers."""

    opened: ClassVar[list["Stage"]] = []  # that the end of the test closes

    def __init__(
        self,
        leaders: Mapping[str, Sequence[int]] | None = None,
        *,
        node_ids: tuple[int, ...] = (1, 2, 3),
        prepare: Callable[[Brokers], object] | None = None,
        on_note: OnNote | None = None,
        clock: ManualClock | None = None,
        is_threaded: bool = False,
        **settings: object,
    ) -> None:
        """Open the topics; `settings` are the producer's."""
        topics = {name: list(nodes) for name, nodes in (leaders or {"orders": [1]}).items()}
        self.brokers = Brokers(topics, node_ids)
        if prepare is not None:
            prepare(self.brokers)
        self.clock = clock or ManualClock()
        self.held: deque[HeldRequest] = deque()
        self.history: list[HeldRequest] = []
        self.sent_at_ms: list[int] = []  # when each request in `history` was sent
        self.id_requests: deque[tuple[Peer, PeerRequest]] = deque()
        self.metadata_requests = 0
        self.asked: set[int] = set()  # every API
        self.transports: list[MemoryTransport] = []
        self.turns = 0
        self.selector = StageSelector(self.clock, self._serve)
        io = self._make_io()
        given: dict[str, Any] = {
            "bootstrap_servers": ",".join(f"127.0.0.1:{9_000 + node_id}" for node_id in node_ids),
            "max_block_ms": 0,
            "linger_ms": 0,
            "retry_backoff_ms": 100,
            **settings,
        }
        self.producer = kprod.Producer(
            environment=Environment(
                clock=self.clock,
                rng=random.Random(7),
                io=lambda _: io,
                is_threaded=is_threaded,
                poisons=True,
                on_note=on_note,
            ),
            **given,
        )
        self.settled: list[tuple[bytes, KprodError | None]] = []
        Stage.opened.append(self)
        for topic in topics:
            with contextlib.suppress(KprodError):
                self.producer.send(topic, b"")
        self.run()

    def run(self, duration_ms: int = 0) -> int:
        """Let the sender run until it would sleep past the end; returns the turns it took."""
        self.selector.horizon_ms = self.clock.now_ms() + duration_ms
        for turn in range(TURNS_MAX):
            self.producer._kprod.run_once(self.clock.now_ms())
            self.turns += 1
            if not self.selector.is_awake and self.clock.now_ms() >= self.selector.horizon_ms:
                return turn + 1
        raise AssertionError(f"the sender took {TURNS_MAX} turns in {duration_ms} ms: it spins")

    def send(self, value: bytes, topic: str = "orders", partition: int = 0) -> kprod.RecordFuture:
        """Send one record, as a batch of its own, and run."""
        future = self.put(value, topic, partition)
        self.run()
        return future

    def put(self, value: bytes, topic: str = "orders", partition: int = 0) -> kprod.RecordFuture:
        """Send one record; its outcome goes to `settled`."""
        return self.producer.send(
            topic,
            value,
            partition=partition,
            on_delivery=lambda _, error: self.settled.append((value, error)),
        )

    def take(self) -> HeldRequest:
        """The oldest Produce request without a response."""
        return self.held.popleft()

    def answer(self, code: int = 0, base_offset: int = 0) -> HeldRequest:
        """Answer the oldest request and run."""
        held = self.take()
        held.answer(code, base_offset)
        self.run()
        return held

    def fill_pipeline(self, count: int = 5) -> list[kprod.RecordFuture]:
        """Acknowledge a first record, then put `count` more in flight, one batch each."""
        first = self.send(b"first")
        self.answer()
        assert first.done()
        futures = [self.send(b"%d" % number) for number in range(count)]
        assert len(self.held) == count
        return futures

    def drop_connections(self, broker: int | None = None) -> None:
        """Reset connections; held requests are never answered."""
        for transport in self.transports:
            if broker is None or transport.address.port == 9_000 + broker:
                transport.io_error = ConnectionResetError("reset by the stage")
        self.held = deque(h for h in self.held if broker is not None and h.broker != broker)

    def give_id(self, code: int = 0, producer_id: int = 1_000, epoch: int = 0) -> None:
        """Answer a held InitProducerId request and run."""
        peer, request = self.id_requests.popleft()
        body = {"error_code": code, "producer_id": producer_id, "producer_epoch": epoch}
        peer.respond(request, body)
        self.run()

    def close(self) -> int:
        """Close the producer; all its memory must be back."""
        undelivered = self.producer.close(0)
        pool = self.producer._kprod.pool
        assert pool.lent_bytes == 0, f"{pool.lent_bytes} bytes were never given back"
        return undelivered

    def _make_io(self) -> NetworkIO:
        return NetworkIO(selector=self.selector, resolver=ScriptedResolver(), connect=self._connect)

    def _connect(self, address: SocketAddress) -> MemoryTransport:
        transport = MemoryTransport(address)
        self.transports.append(transport)
        return transport

    def _serve(self) -> None:
        for transport in list(self.transports):
            broker = transport.address.port - 9_000
            if transport.is_closed or transport.io_error or broker in self.brokers.silent:
                continue
            transport.is_connected = True
            peer = Peer(transport)
            for request in peer.requests():
                self._take(broker, peer, request)

    def _take(self, broker: int, peer: Peer, request: PeerRequest) -> None:
        self.asked.add(request.api_key)
        if request.api_key == ApiKey.API_VERSIONS:
            peer.respond(request, {"api_keys": api_keys(self.brokers.versions)})
        elif request.api_key == ApiKey.METADATA:
            self.metadata_requests += 1
            peer.respond(request, self.brokers.metadata(request))
        elif request.api_key == ApiKey.INIT_PRODUCER_ID:
            self.id_requests.append((peer, request))
            if not self.brokers.holds_ids:
                peer, request = self.id_requests.popleft()
                body = {
                    "producer_id": self.brokers.producer_id,
                    "producer_epoch": self.brokers.first_epoch,
                }
                peer.respond(request, body)
        else:
            batches = tuple(
                SentBatch(HeldRequest.topic_name(topic), part["index"], bytes(part["records"]))
                for topic in request.body["topic_data"]
                for part in topic["partition_data"]
            )
            held = HeldRequest(broker, peer, request, batches)
            self.history.append(held)
            self.sent_at_ms.append(self.clock.now_ms())
            if request.body["acks"]:
                self.held.append(held)
