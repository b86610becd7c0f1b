"""A cluster on a manual clock and an in-memory network, and clients that speak frames to it."""

from collections.abc import Mapping
from typing import Any

from kprod.broker import BrokerSecurity, EmbeddedCluster, EmbeddedConfig
from kprod.clock import ManualClock
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_response_header, encode_request_header
from tests.broker.memory_network import MemoryNetwork, MemoryStream
from tests.oracle.record_v2 import BatchFields, encode_batch

TIMESTAMP_MS = 1_700_000_000_000


class Client:
    """One connection."""

    def __init__(self, world: "World", stream: MemoryStream) -> None:
        """Use an open connection."""
        self.world = world
        self.stream = stream
        self._sent: dict[int, tuple[int, int]] = {}
        self._next_id = 0

    def send(self, api: ApiKey, version: int, body: Mapping[str, Any]) -> int:
        """Send a request and let the cluster run; returns the correlation id."""
        self._next_id += 1
        self._sent[self._next_id] = (api, version)
        header = encode_request_header(api, version, self._next_id, "test")
        self.send_frame(header + request_codec(api, version).encode(body))
        return self._next_id

    def send_frame(self, frame: bytes) -> None:
        """Send any frame and let the cluster run."""
        self.stream.incoming += len(frame).to_bytes(4) + frame
        self.world.step()

    def answers(self) -> dict[int, dict[str, Any]]:
        """Take all whole answers that arrived, by correlation id, in order."""
        answers: dict[int, dict[str, Any]] = {}
        outgoing = self.stream.outgoing
        while len(outgoing) >= 4:
            size = int.from_bytes(outgoing[:4])
            if len(outgoing) < 4 + size:
                break
            frame = bytes(outgoing[4 : 4 + size])
            del outgoing[: 4 + size]
            api, version = self._sent[int.from_bytes(frame[:4])]
            correlation_id, at = decode_response_header(api, version, frame)
            answers[correlation_id] = response_codec(api, version).decode(frame[at:])
        return answers

    def ask(self, api: ApiKey, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request that is answered at once."""
        correlation_id = self.send(api, version, body)
        return self.answers()[correlation_id]

    def produce(  # a request's own fields, by keyword
        self,
        records: bytes | None,
        *,
        topic: str = "orders",
        partition: int = 0,
        acks: int = -1,
        timeout_ms: int = 1_000,
        version: int = 9,
    ) -> int:
        """Send one batch; returns the correlation id."""
        return self.send(
            ApiKey.PRODUCE,
            version,
            {
                "acks": acks,
                "timeout_ms": timeout_ms,
                "topic_data": [
                    {
                        "name": topic,
                        "partition_data": [{"index": partition, "records": records}],
                    }
                ],
            },
        )

    def produced(self, records: bytes | None, **options: Any) -> dict[str, Any]:
        """Send one batch and take the partition's answer."""
        correlation_id = self.produce(records, **options)
        return part(self.answers()[correlation_id])

    def fetch(  # noqa: PLR0913 - a request's own fields, by keyword
        self,
        offset: int,
        *,
        topic: str = "orders",
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
        rack: str = "",
        version: int = 12,
    ) -> int:
        """Ask for partition 0; returns the correlation id."""
        return self.send(
            ApiKey.FETCH,
            version,
            {
                "max_wait_ms": max_wait_ms,
                "min_bytes": min_bytes,
                "max_bytes": max_bytes,
                "session_epoch": 0,
                "rack_id": rack,
                "topics": [
                    {
                        "topic": topic,
                        "partitions": [
                            {
                                "partition": 0,
                                "fetch_offset": offset,
                                "partition_max_bytes": max_bytes,
                                "current_leader_epoch": leader_epoch,
                            }
                        ],
                    }
                ],
            },
        )

    def fetched(self, offset: int, **options: Any) -> dict[str, Any]:
        """Fetch and take the partition's answer."""
        correlation_id = self.fetch(offset, **options)
        return part(self.answers()[correlation_id])


class World:
    """A cluster without threads."""

    def __init__(
        self,
        *,
        brokers: int = 3,
        topics: Mapping[str, int] | None = None,
        config: EmbeddedConfig | None = None,
        security: BrokerSecurity | None = None,
        **storage: Any,
    ) -> None:
        """Open a cluster whose topic `orders` has one partition, led by broker 0."""
        self.clock = ManualClock(timestamp_ms=TIMESTAMP_MS)
        self.network = MemoryNetwork()
        self.cluster = EmbeddedCluster(
            brokers,
            topics if topics is not None else {"orders": 1},
            config=config,
            clock=self.clock,
            network=self.network,
            security=security,
            **storage,
        )
        self.cluster.open()

    def step(self) -> None:
        """Let the cluster run until it has nothing to do at this time."""
        for _ in range(8):
            self.cluster.step(self.clock.now_ms())

    def advance(self, delta_ms: int) -> None:
        """Let time pass."""
        self.clock.advance(delta_ms)
        self.step()

    def client(self, broker: int = 0) -> Client:
        """Connect to a broker."""
        return Client(self, self.network.connect(9_000 + broker))


def part(answer: dict[str, Any]) -> dict[str, Any]:
    """The first partition of the first topic of a Produce or Fetch answer."""
    topic = answer["responses"][0]
    entry: dict[str, Any] = topic.get("partition_responses", topic.get("partitions"))[0]
    return entry


def batch(count: int = 1, **fields: Any) -> bytes:  # BatchFields
    """A batch of small records, stamped with the world's wall clock."""
    wanted: BatchFields = {**fields}  # type: ignore[typeddict-item]  # checked by the oracle
    rows = [(TIMESTAMP_MS, b"k%d" % index, b"v%d" % index, ()) for index in range(count)]
    return encode_batch(rows, **wanted)
