"""Answers of hostile and of huge brokers, each taken in by a client that measures its memory.

`python -m tests.network.hostile NAME` runs one of them and prints what it measured as JSON. A
process of its own keeps an attack that succeeds from taking the test run with it.
"""

import json
import random
import resource
import sys
import tracemalloc
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kprod.errors import KprodError
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import encode_response_header
from tests.consumer.reading import scripted_consumer
from tests.network.scripted import (
    ALL_VERSIONS,
    MemoryTransport,
    Peer,
    PeerRequest,
    World,
    api_keys,
    metadata_body,
)
from tests.network.scripted_logs import Log, LogCluster
from tests.producer.stage import HeldRequest, Stage

MEMORY_MAX_BYTES = 1 << 30  # limit of the process: an attack ends as MemoryError, not in swapping
TURNS_MAX = 4_000
LEADER = {1: ("127.0.0.1", 9101)}


class Flood(NamedTuple):
    """A response that is being received by a client.

    Attributes:
        transport: The transport that received it.
        answer: The frame with its length.
        turn: Lets the client read once.
        partitions_asked: How many partitions the question was about, as the broker has them.
    """

    transport: MemoryTransport
    answer: bytes
    turn: Callable[[], object]
    partitions_asked: int = 0


Attack = Callable[[], Iterator[Flood]]


def frame(request: PeerRequest, body: bytes) -> bytes:
    """Put a response's body, encoded by hand, into a frame."""
    header = encode_response_header(request.api_key, request.version, request.correlation_id)
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def uvarint(number: int) -> bytes:
    """The compact length of `number` − 1 elements."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def measure(flood: Flood) -> dict[str, int]:
    """Let a client take in a response; tell what that took."""
    unread = memoryview(flood.answer)
    transport = flood.transport
    position = 0

    def read_into(buffer: bytearray, bytes_max: int = sys.maxsize, start: int = 0) -> int | None:
        nonlocal position
        count = min(len(buffer) - start, len(unread) - position, bytes_max)
        if not count:
            return None
        memoryview(buffer)[start : start + count] = unread[position : position + count]
        position += count
        return count

    transport.from_peer += b"x"  # so that the selector reports it
    transport.read_into = read_into  # type: ignore[method-assign]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    turns = 0
    while position < len(unread) and not transport.is_closed and turns < TURNS_MAX:
        flood.turn()
        turns += 1
    flood.turn()
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "received_bytes": position,
        "peak_bytes": peak - before,
        "kept_bytes": now - before,
        "partitions_asked": flood.partitions_asked,
        "turns": turns,
    }


# Metadata


def _asked() -> tuple[World, Peer, PeerRequest]:
    """A client that is about to hear of "orders"."""
    world = World()
    world.metadata.add_topic("orders", world.now_ms)
    peer = world.connect()
    world.poll()
    return world, peer, peer.request()


def _metadata(body: Mapping[str, Any], partitions_asked: int = 0) -> Iterator[Flood]:
    world, peer, request = _asked()
    yield Flood(peer.transport, Peer.frame(request, body), world.poll, partitions_asked)


def _topic(name: str, indexes: list[int], replicas: list[int] | None = None) -> dict[str, Any]:
    nodes = [1] if replicas is None else replicas
    return {
        "name": name,
        "topic_id": uuid.uuid5(uuid.NAMESPACE_DNS, name),
        "partitions": [
            {
                "partition_index": index,
                "leader_id": 1,
                "leader_epoch": index,
                "replica_nodes": nodes,
                "isr_nodes": nodes,
            }
            for index in indexes
        ],
    }


def _cluster(*topics: dict[str, Any], brokers: int = 1) -> dict[str, Any]:
    nodes = {number: (f"broker-{number}.example", 9092) for number in range(1, brokers + 1)}
    return {**metadata_body(nodes), "topics": list(topics)}


def distant_partition_of_others() -> Iterator[Flood]:
    """100 topics that nobody asked for, each with nothing but partition 999,999."""
    names = [f"other-{number}" for number in range(100)]
    yield from _metadata(_cluster(*(_topic(name, [999_999]) for name in names)))


def distant_partition() -> Iterator[Flood]:
    """The topic that was asked for, with nothing but partition 999,999."""
    yield from _metadata(_cluster(_topic("orders", [999_999])), partitions_asked=1)


def topics_of_others() -> Iterator[Flood]:
    """2,000 sound topics of 20 partitions that nobody asked for."""
    body = _cluster(*(_topic(f"other-{n}", list(range(20)), [1, 2, 3]) for n in range(2_000)))
    yield from _metadata(body)


def large_topic() -> Iterator[Flood]:
    """The topic that was asked for, with 20,000 partitions on 3 brokers."""
    body = _cluster(_topic("orders", list(range(20_000)), [1, 2, 3]), brokers=3)
    yield from _metadata(body, partitions_asked=20_000)


def topic_on_many_brokers() -> Iterator[Flood]:
    """1,000 partitions, each on brokers of its own: as much as an honest cluster can differ."""
    topic = _topic("orders", list(range(1_000)))
    for index, partition in enumerate(topic["partitions"]):
        nodes = [1 + (index + step) % 1_000 for step in range(3)]
        partition.update(leader_id=nodes[0], replica_nodes=nodes, isr_nodes=nodes)
    yield from _metadata(_cluster(topic, brokers=1_000), partitions_asked=1_000)


def many_brokers() -> Iterator[Flood]:
    """10,000 brokers, one of which leads the topic."""
    yield from _metadata(_cluster(_topic("orders", [0]), brokers=10_000), partitions_asked=1)


def many_replicas() -> Iterator[Flood]:
    """A partition that 200,000 brokers have copies of."""
    topic = _topic("orders", [0], list(range(100_000, 300_000)))
    yield from _metadata(_cluster(topic), partitions_asked=1)


def topic_again_and_again() -> Iterator[Flood]:
    """The topic that was asked for, 20,000 times in one response."""
    yield from _metadata(_cluster(*[_topic("orders", [0])] * 20_000), partitions_asked=1)


# ApiVersions


def _versions(body: Mapping[str, Any]) -> Iterator[Flood]:
    world = World()
    world.poll()
    peer = world.newest.accept()
    world.poll()
    request = peer.request()
    yield Flood(peer.transport, Peer.frame(request, body), world.poll)


def many_api_keys() -> Iterator[Flood]:
    """30,000 requests, each of which the broker claims to serve."""
    yield from _versions({"api_keys": api_keys(dict.fromkeys(range(30_000), (0, 1)))})


def many_features() -> Iterator[Flood]:
    """20,000 features, supported and finalized."""
    supported = [{"name": f"f{n}", "min_version": 0, "max_version": 1} for n in range(20_000)]
    finalized = [
        {"name": f"f{n}", "min_version_level": 0, "max_version_level": 1} for n in range(20_000)
    ]
    yield from _versions(
        {
            "api_keys": api_keys(ALL_VERSIONS),
            "supported_features": supported,
            "finalized_features": finalized,
        }
    )


# Produce


def _produce(make: Callable[[HeldRequest], Mapping[str, Any]]) -> Iterator[Flood]:
    stage = Stage()
    stage.put(b"value")
    stage.run()
    held = stage.take()
    answer = Peer.frame(held.request, make(held))

    def turn() -> None:
        stage.selector.horizon_ms = stage.clock.now_ms()
        stage.producer._kprod.run_once(stage.clock.now_ms())

    yield Flood(held.peer.transport, answer, turn, partitions_asked=1)
    Stage.opened.clear()


def _rejection(held: HeldRequest, **fields: Any) -> dict[str, Any]:
    topic_id = held.request.body["topic_data"][0]["topic_id"]
    part = {"index": 0, "error_code": 87, "base_offset": -1, **fields}
    return {"responses": [{"topic_id": topic_id, "partition_responses": [part]}]}


def million_record_errors() -> Iterator[Flood]:
    """A batch of one record is rejected because of a million records."""
    errors = [{"batch_index": number} for number in range(1_000_000)]
    yield from _produce(lambda held: _rejection(held, record_errors=errors))


def answers_for_others() -> Iterator[Flood]:
    """A response for 50,000 partitions to a request about one."""

    def make(held: HeldRequest) -> dict[str, Any]:
        body = _rejection(held)
        parts = [{"index": index, "base_offset": 7} for index in range(50_000)]
        body["responses"][0]["partition_responses"] = parts
        return body

    yield from _produce(make)


def acknowledgements_for_others() -> Iterator[Flood]:
    """The same for a response of 50,000 topics that takes every batch."""

    def make(held: HeldRequest) -> dict[str, Any]:
        topic_id = held.request.body["topic_data"][0]["topic_id"]
        parts = [{"index": 0, "base_offset": 7}]
        return {"responses": [{"topic_id": topic_id, "partition_responses": parts}] * 50_000}

    yield from _produce(make)


def many_endpoints() -> Iterator[Flood]:
    """A rejection that names 20,000 other brokers."""

    def make(held: HeldRequest) -> dict[str, Any]:
        nodes = [{"node_id": n, "host": f"broker-{n}", "port": 9092} for n in range(20_000)]
        return {**_rejection(held, error_code=6), "node_endpoints": nodes}

    yield from _produce(make)


# InitProducerId


def many_unknown_tags() -> Iterator[Flood]:
    """A response with 1,024 tagged fields that nobody knows, of 100 bytes each."""
    world = World()
    world.join(LEADER, {})
    peer = world.connect_node(1)
    world.send(1)
    request = peer.request()
    codec = response_codec(request.api_key, request.version)
    body = codec.encode({"producer_id": 7, "producer_epoch": 0})[:-1] + uvarint(1_024)
    body += b"".join(uvarint(9_000 + tag) + uvarint(100) + bytes(100) for tag in range(1_024))
    yield Flood(peer.transport, frame(request, body), world.poll)


# Reading a topic


def _reading(api_key: ApiKey, partitions: list[dict[str, Any]]) -> Iterator[Flood]:
    log = Log()
    log.append(b"value")
    cluster = LogCluster(log)
    asked: list[tuple[Peer, PeerRequest]] = []

    def hold(_: LogCluster, node_id: int, request: PeerRequest) -> str | None:
        if request.api_key != api_key:
            return None
        open_transports = [t for t in cluster.transports if t.address.port == 9100 + node_id]
        asked.append((Peer(open_transports[-1]), request))
        return "silence"

    cluster.rules.append(hold)
    with scripted_consumer(cluster, "orders") as consumer:
        while not asked:
            consumer.poll(0.01)
        peer, request = asked[0]
        body = cluster.usual_response(1, request)
        (body.get("responses") or body["topics"])[0]["partitions"] = partitions

        def turn() -> None:
            try:
                consumer.poll(0.01)
            except KprodError as error:
                sys.stderr.write(f"{error}\n")

        yield Flood(peer.transport, Peer.frame(request, body), turn, partitions_asked=1)


def many_aborted_transactions() -> Iterator[Flood]:
    """A partition of which 50,000 transactions were aborted."""
    aborted = [{"producer_id": n, "first_offset": n} for n in range(50_000)]
    part = {"partition_index": 0, "high_watermark": 1, "aborted_transactions": aborted}
    yield from _reading(ApiKey.FETCH, [part])


def fetched_for_others() -> Iterator[Flood]:
    """Records of 20,000 partitions that nobody asked for."""
    yield from _reading(
        ApiKey.FETCH, [{"partition_index": n, "records": b"r"} for n in range(20_000)]
    )


def offsets_for_others() -> Iterator[Flood]:
    """Offsets of 20,000 partitions that nobody asked for."""
    parts = [{"partition_index": n, "offset": n} for n in range(20_000)]
    yield from _reading(ApiKey.LIST_OFFSETS, parts)


ATTACKS: Mapping[str, Attack] = {
    attack.__name__: attack
    for attack in (
        distant_partition_of_others,
        distant_partition,
        topics_of_others,
        large_topic,
        topic_on_many_brokers,
        many_brokers,
        many_replicas,
        topic_again_and_again,
        many_api_keys,
        many_features,
        million_record_errors,
        answers_for_others,
        acknowledgements_for_others,
        many_endpoints,
        many_unknown_tags,
        many_aborted_transactions,
        fetched_for_others,
        offsets_for_others,
    )
}


def main(name: str) -> None:
    """Run one attack."""
    random.seed(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    for warm in (True, False):  # codecs are made once and kept
        floods = ATTACKS["many_unknown_tags" if warm else name]()
        measured = measure(next(floods))
        next(floods, None)
    sys.stdout.write(json.dumps(measured))


if __name__ == "__main__":
    main(sys.argv[1])
