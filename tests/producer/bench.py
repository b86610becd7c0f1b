"""Everything between `send` and the socket, on a bench: real parts, a clock moved by hand.

The network is a list of requests that a test answers as it likes, with brokers behind it that keep
the rules of `tests.oracle.accumulator_model`.
"""

import itertools
import random
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from kprod.clock import ManualClock
from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from kprod.errors import Disconnected, KprodError
from kprod.model import Node, RecordMetadata
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.connection_context import NetworkIO
from kprod.producer.batch_compression.batch_compressor import BatchCompressor
from kprod.producer.batch_compression.parallel_compressor import ParallelCompressor
from kprod.producer.produce_request import ProduceRequest
from kprod.producer.producer import Producer
from kprod.producer.wiring import Environment
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.headers import decode_request_header
from kprod.timer.timer import Timer
from tests.network.scripted import MemorySelector, ScriptedResolver
from tests.oracle import record_v2
from tests.oracle.accumulator_model import PartitionModel

PRODUCE_VERSION = 11
TOPIC = "orders"
NOT_LEADER_OR_FOLLOWER = 6


class Carried:
    """A Produce request on the wire: what it carries, and whether brokers have acted on it."""

    def __init__(self, request: ClientRequest) -> None:
        assert isinstance(request, ProduceRequest)
        self.request = request
        frame = b"".join(request.encode(PRODUCE_VERSION, 1, "bench").pieces)
        _, offset = decode_request_header(frame[4:])
        body = request_codec(ApiKey.PRODUCE, PRODUCE_VERSION).decode(frame[4 + offset :])
        self.batches: dict[int, bytes] = {
            entry["index"]: bytes(entry["records"])
            for topic in body["topic_data"]
            for entry in topic["partition_data"]
        }


def own_compressor(producer: Any) -> BatchCompressor:
    """The compressor of the sender's thread."""
    compressor = producer._kprod.sender.compressor
    assert isinstance(compressor, ParallelCompressor)
    return compressor.own


class FakeClient:
    """The network client's part that the sender calls."""

    def __init__(self, clock: ManualClock, timer: Timer) -> None:
        self._clock = clock
        self._timer = timer
        self._completions: deque[tuple[ClientRequest, Outcome]] = deque()
        self.in_flight: list[Carried] = []
        self.connections = self
        self.room = 5
        self.polls = 0
        self.sleep_ms = -1
        self.producer_ids = 0

    def ready(self, node: Node, now_ms: int) -> bool:
        """Room in flight is all that counts here."""
        assert now_ms == self._clock.now_ms()
        return self.in_flight_of(node.node_id) < self.room

    @property
    def requests_in_flight(self) -> int:
        """Requests that no node has answered."""
        return len(self.in_flight)

    def in_flight_of(self, node_id: int) -> int:
        """Requests that a node has not answered."""
        return sum(carried.request.node_id == node_id for carried in self.in_flight)

    def idle_connection(self, node_id: int, now_ms: int) -> object | None:
        """Anything but None, if the node has no request in flight."""
        assert now_ms == self._clock.now_ms()
        return None if self.in_flight_of(node_id) else self

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Any."""
        return Node(0, "broker", 9092 + now_ms * 0)

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """Only a response can help."""
        return 0 if self.ready(node, now_ms) else NEVER_MS

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Keep a Produce request; answer InitProducerId."""
        assert now_ms == self._clock.now_ms()
        if request.api_key == ApiKey.INIT_PRODUCER_ID:
            self.producer_ids += 1
            body = {"error_code": 0, "producer_id": 6 + self.producer_ids, "producer_epoch": 0}
            self.complete(request, body=body)
            return
        self.in_flight.append(Carried(request))
        if not request.expects_response:
            self.answer(self.in_flight[-1], None)

    def poll(self, timeout_ms: int, now_ms: int) -> None:
        """Complete the answered requests."""
        assert timeout_ms >= 0
        assert now_ms == self._clock.now_ms()
        self.polls += 1
        self.sleep_ms = timeout_ms
        self._fire_completions()

    def catch_up(self) -> None:
        """Complete the answered requests, then run due timers."""
        self._fire_completions()
        self._timer.advance(self._clock.now_ms())

    def _fire_completions(self) -> None:
        for _ in range(len(self._completions)):
            request, outcome = self._completions.popleft()
            request.complete(outcome)

    def wakeup(self) -> None:
        """Nobody sleeps."""

    def close(self) -> None:
        """Complete everything as disconnected."""
        for carried in list(self.in_flight):
            self.lose(carried)
        self.poll(0, self._clock.now_ms())

    def answer(self, carried: Carried, body: dict[str, Any] | None) -> None:
        """Let a request be answered at the next poll."""
        self.in_flight.remove(carried)
        self.complete(carried.request, body=body)

    def lose(self, carried: Carried, *, was_written: bool = True) -> None:
        """Let its connection be gone at the next poll."""
        self.in_flight.remove(carried)
        error = Disconnected("the connection went away")
        self.complete(carried.request, error=error, was_written=was_written)

    def complete(self, request: ClientRequest, **fields: Any) -> None:
        """Make an outcome."""
        fields.setdefault("was_written", True)
        outcome = Outcome(
            node_id=request.node_id,
            version=PRODUCE_VERSION,
            latency_ms=0,
            now_ms=self._clock.now_ms(),
            **fields,
        )
        self._completions.append((request, outcome))


def topic_snapshot(
    leaders: Sequence[int], *, topic_id: uuid.UUID | None = None, name: str = TOPIC
) -> TopicSnapshot:
    """A topic whose partitions are led by these nodes, −1 for none."""
    count = len(leaders)
    return TopicSnapshot(
        name=name,
        topic_id=topic_id or uuid.UUID(int=1),
        leader_ids=tuple(leaders),
        leader_epochs=(0,) * count,
        replicas=((0,),) * count,
        in_sync_replicas=((0,),) * count,
    )


class Bench:
    """A producer without network and thread, and the partitions it sends to."""

    def __init__(
        self, leaders: Sequence[int] = (0, 0, 1), *, racks: Sequence[str] = (), **config: Any
    ) -> None:
        self.clock = ManualClock()
        io = NetworkIO(
            selector=MemorySelector(), resolver=ScriptedResolver(), connect=_never_connect
        )
        environment = Environment(
            clock=self.clock,
            rng=random.Random(7),
            io=lambda _: io,
            is_threaded=False,
        )
        self.producer = Producer(
            bootstrap_servers="bench:1", environment=environment, **{"max_block_ms": 0, **config}
        )
        self.client = FakeClient(self.clock, self.producer._kprod.timer)
        self.producer._kprod.client = self.client  # type: ignore[assignment]
        sender = self.producer._kprod.sender
        sender._client = self.client  # type: ignore[assignment]
        sender._producer_id_requests._client = self.client  # type: ignore[assignment]
        self.pool = self.producer._kprod.pool
        self.accumulator = self.producer._kprod.accumulator
        self.nodes = {
            node_id: Node(node_id, f"b{node_id}", 9092, rack)
            for node_id, rack in enumerate(racks or [None, None, None])
        }
        self.partitions: list[PartitionModel] = []
        self.lead(*leaders)
        self.head = self.producer._kprod.support.open_topic(TOPIC, 0)

    def lead(self, *leaders: int, topic_id: uuid.UUID | None = None) -> None:
        """Let the cluster look like this from now on."""
        topic = topic_snapshot(leaders, topic_id=topic_id)
        self.producer._kprod.metadata.snapshot = ClusterSnapshot(
            nodes=MappingProxyType(self.nodes), topics=MappingProxyType({TOPIC: topic})
        )
        self.leaders = list(leaders)
        while len(self.partitions) < len(leaders):
            self.partitions.append(PartitionModel())

    def forget_topic(self) -> None:
        """Let metadata not know the topic."""
        self.producer._kprod.metadata.snapshot = ClusterSnapshot(nodes=MappingProxyType(self.nodes))

    def send(self, partition: int, value: bytes, **more: Any) -> Any:
        """Send, and let the model know."""
        model = self.partitions[partition]

        def note(metadata: RecordMetadata | None, error: KprodError | None) -> None:
            if error is None:
                assert metadata is not None
                assert metadata.partition == partition
                model.outcomes.append((value, metadata.offset))
            else:
                assert error.persistence is not None, error
                model.outcomes.append((value, error.persistence.name))

        future = self.producer.send(TOPIC, value, partition=partition, on_delivery=note, **more)
        model.sent.append(value)
        return future

    def turn(self, advance_ms: int = 0) -> None:
        """Let time pass, then one turn of the sender."""
        if advance_ms:
            self.clock.advance(advance_ms)
        self.producer._kprod.run_once(self.clock.now_ms())

    def apply(self, carried: Carried) -> dict[int, tuple[int, int]]:
        """Let the brokers act on a request; error code and offset by partition."""
        answers = {}
        for partition, batch in carried.batches.items():
            if self.leaders[partition] != carried.request.node_id:
                answers[partition] = NOT_LEADER_OR_FOLLOWER, -1
            else:
                answers[partition] = self.partitions[partition].append(batch)
        return answers

    def answer(
        self, carried: Carried, answers: dict[int, tuple[int, int]] | None = None
    ) -> dict[int, tuple[int, int]]:
        """Answer as the brokers say, or as told."""
        answers = self.apply(carried) if answers is None else answers
        self.client.answer(carried, produce_body(answers))
        return answers

    def reject(self, carried: Carried, code: int) -> None:
        """Answer every partition with an error, nothing appended."""
        self.answer(carried, dict.fromkeys(carried.batches, (code, -1)))

    def run(self, turns: int = 60, advance_ms: int = 10) -> None:
        """Answer everything truthfully for a while."""
        for _ in range(turns):
            self.turn(advance_ms)
            for carried in list(self.client.in_flight):
                self.answer(carried)
            self.turn()

    def timers(self) -> int:
        """How many deadlines are armed."""
        return len(self.producer._kprod.timer)


def deliver(bench: Bench) -> list[list[record_v2.DecodedRecord]]:
    """Let everything be taken; returns what each partition got, in order."""
    logs: list[list[record_v2.DecodedRecord]] = [[] for _ in bench.partitions]
    for _ in range(40):
        bench.turn(10)
        for carried in list(bench.client.in_flight):
            for partition, batch in carried.batches.items():
                decoded = record_v2.decode_batches(batch)
                logs[partition] += itertools.chain(*(one.records for one in decoded))
            bench.answer(carried)
        bench.turn()
    return logs


def produce_body(answers: dict[int, tuple[int, int]]) -> dict[str, Any]:
    """Make a Produce response."""
    return {
        "responses": [
            {
                "name": TOPIC,
                "partition_responses": [
                    {
                        "index": partition,
                        "error_code": code,
                        "base_offset": offset,
                        "log_append_time_ms": -1,
                        "log_start_offset": 0,
                        "record_errors": [],
                        "error_message": None,
                    }
                    for partition, (code, offset) in answers.items()
                ],
            }
        ],
        "throttle_time_ms": 0,
    }


def _never_connect(address: object) -> Any:
    raise AssertionError(f"the bench has no network, and was asked for {address}")


Sending = Callable[[int, bytes], Any]
