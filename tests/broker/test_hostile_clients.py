"""The cost of hostile clients for the broker, which meanwhile serves others.

Memory is measured in a process of its own for each client. That another client is served is told by
the order of responses, and how much work a request makes by counted calls: no clock is looked at.
"""

import contextlib
import gzip
import json
import logging
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Self

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.sockets import SocketNetwork
from kprod.clock import ManualClock
from kprod.errors import ConfigError
from kprod.model import Codec
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.record.message_set import write_message_set
from tests.broker import hostile
from tests.broker.world import TIMESTAMP_MS, Client, World, batch
from tests.conformance.batches import resealed

CHILD_TIMEOUT_S = 300.0
_MIB = 1 << 20
LIMIT_OF_A_FRAME = 2.0
"""Times the bytes that arrived."""

# Beside twice the bytes received: what the cluster's settings allow, and the interpreter's own.
ALLOWED_BYTES = {
    "half_sent_frames": _MIB,
    "a_million_partitions": _MIB,
    "many_requests_for_partitions": 160 * _MIB,  # 100,000 partitions (partitions_max)
    "many_new_topics": 48 * _MIB,  # the fields of one request (decoded_request_bytes_max)
    "answers_that_nobody_reads": 96 * _MIB,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.CLIENTS)
def test_memory_is_bounded_and_others_are_served(name: str) -> None:
    """At most twice the bytes received, and the settings' limits."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.broker.hostile", name],
        capture_output=True,
        check=True,
        timeout=CHILD_TIMEOUT_S,
    )
    cost = json.loads(child.stdout)

    limit_bytes = LIMIT_OF_A_FRAME * cost["received_bytes"] + ALLOWED_BYTES[name]
    assert cost["grown_bytes"] <= limit_bytes
    assert cost["is_served"]


def first_answered(world: World, hostile_client: Client, frame: bytes) -> str:
    """Return which client gets the first response: the hostile one or the next one."""
    honest = world.client()
    world.step()
    hostile_client.stream.incoming += frame
    honest.stream.incoming += hostile.frame_of(ApiKey.API_VERSIONS, 0, {})
    for _ in range(10_000):
        world.cluster.step(world.clock.now_ms())
        if hostile_client.stream.outgoing:
            return "hostile"
        if honest.stream.outgoing:
            return "honest"
    raise AssertionError("nobody was answered")


def deletion() -> tuple[World, Client, bytes]:
    """One request that deletes 1,000 topics."""
    world = World(topics={f"t{index}": 1 for index in range(1_000)})
    names = [f"t{index}" for index in range(1_000)]
    return world, world.client(), hostile.frame_of(ApiKey.DELETE_TOPICS, 4, {"topic_names": names})


def creation() -> tuple[World, Client, bytes]:
    """One request that makes 9,000 partitions."""
    topics = [
        {"name": f"t{index}", "num_partitions": 90, "replication_factor": 1} for index in range(100)
    ]
    world = World()
    return world, world.client(), hostile.frame_of(ApiKey.CREATE_TOPICS, 4, {"topics": topics})


def unpacking() -> tuple[World, Client, bytes]:
    """One request with six batches of 60 kilobytes, each of which unpacks to 60 megabytes."""
    packed = gzip.compress(bytes(60 * _MIB))
    records = batch(1, codec=Codec.GZIP)[:61] + packed
    records = resealed(records[:8] + (len(records) - 12).to_bytes(4) + records[12:], 61, packed)
    return _produce([records] * 6, version=9)


def unpacking_old_formats() -> tuple[World, Client, bytes]:
    """One request with four wrappers of many messages in the oldest format."""
    rows = [(index, TIMESTAMP_MS, None, b"") for index in range(20_000)]
    return _produce([write_message_set(rows, magic=0, codec=Codec.GZIP)] * 4, version=0)


def _produce(records: list[bytes], *, version: int) -> tuple[World, Client, bytes]:
    world = World(topics={"orders": len(records)}, brokers=1)
    partitions = [{"index": index, "records": it} for index, it in enumerate(records)]
    topic = {"name": "orders", "partition_data": partitions}
    body = {"acks": 1, "timeout_ms": 1, "topic_data": [topic]}
    return world, world.client(), hostile.frame_of(ApiKey.PRODUCE, version, body)


def questions() -> tuple[World, Client, bytes]:
    """A thousand questions in one piece, none of whose responses is read."""
    frame = hostile.frame_of(ApiKey.METADATA, 12, {"topics": None})
    world = World(topics={f"t{index}": 10 for index in range(50)})
    return world, world.client(), 1_000 * frame


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [deletion, creation, unpacking, unpacking_old_formats], ids=lambda it: it.__name__
)
def test_a_long_request_is_handled_in_slices(
    make: Callable[[], tuple[World, Client, bytes]],
) -> None:
    """A short request that arrives with it is answered before it."""
    assert first_answered(*make()) == "honest"


def test_a_client_that_pipelines_and_never_reads_stops_no_other() -> None:
    """Its requests are taken a few at a time, and none once its responses pile up."""
    world, client, frames = questions()
    honest = world.client()
    world.step()
    client.stream.send_limit_bytes = 0
    client.stream.incoming += frames
    honest.stream.incoming += hostile.frame_of(ApiKey.API_VERSIONS, 0, {})

    with Calls("MetadataHandler.handle") as handled:
        world.cluster.step(world.clock.now_ms())
    assert honest.stream.outgoing
    assert handled.count <= 16


class Calls:
    """Counts calls of Python functions in a block.

    Attributes:
        count: Number of calls of the function with that qualified name, or of all functions.
    """

    def __init__(self, name: str | None = None) -> None:
        """Count nothing yet."""
        self._name = name
        self.count = 0

    def __enter__(self) -> Self:
        """Count from now on."""
        sys.setprofile(self._counted)
        return self

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        sys.setprofile(None)

    def _counted(self, frame: FrameType, event: str, _: object) -> None:
        is_one = self._name in {None, frame.f_code.co_qualname}
        self.count += event == "call" and is_one


def test_deleting_many_topics_costs_each_of_them_once() -> None:
    """The work is that of a topic times their number, not its square."""
    world, client, frame = deletion()
    world.step()
    client.stream.incoming += frame

    with Calls() as calls:
        while not client.stream.outgoing:
            world.cluster.step(world.clock.now_ms())

    assert calls.count <= 100 * 1_000


def test_wrappers_that_unpack_to_many_times_their_size_are_too_large() -> None:
    """The limit of a message bounds its decompressed records as well."""
    world = World(config=EmbeddedConfig(message_max_bytes=10_000))
    records = write_message_set([(0, 1, None, bytes(_MIB))], magic=1, codec=Codec.GZIP)
    assert len(records) < 10_000

    assert world.client().produced(records, version=2)["error_code"] == 10


def test_a_message_set_above_the_limit_is_not_unpacked() -> None:
    """As with batches, each message or wrapper counts whole."""
    world = World(config=EmbeddedConfig(message_max_bytes=1_000))
    records = write_message_set([(0, 1, None, bytes(2_000))], magic=1)

    assert world.client().produced(records, version=2)["error_code"] == ErrorCode.MESSAGE_TOO_LARGE


def accepts_within(step_count: int, cluster: EmbeddedCluster, clock: ManualClock) -> int:
    """Step a cluster; returns how often it tried to accept a connection."""
    with Calls("SocketListener.accept") as accepts:
        for _ in range(step_count):
            cluster.step(clock.now_ms())
    return accepts.count


def test_without_a_descriptor_the_broker_does_not_spin() -> None:
    """A connection that cannot be accepted is left to wait, and accepted when there is room."""
    clock = ManualClock(timestamp_ms=TIMESTAMP_MS)
    cluster = EmbeddedCluster(1, clock=clock, network=SocketNetwork())
    cluster.open()
    host, port = cluster.bootstrap_servers.split(":")
    with contextlib.closing(cluster), socket.create_connection((host, int(port))) as client:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Descriptors are given from the lowest free one, so all below this one's are taken.
        taken = os.dup(client.fileno())
        os.close(taken)
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken, hard))
        try:
            accept_count = accepts_within(100, cluster, clock)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        clock.advance(1_000)
        for _ in range(3):
            cluster.step(clock.now_ms())

        assert accept_count == 1
        assert cluster._kprod.engine.connection_count == 1


def test_ten_thousand_connections_too_many_are_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The first is told at once, the others by their number."""
    world = World(config=EmbeddedConfig(connections_max=1))
    with caplog.at_level(logging.WARNING, "kprod.broker"):
        for _ in range(10_001):
            world.client()
        for _ in range(20):
            world.step()
        world.advance(10_000)

    assert len(caplog.messages) == 2
    assert "connections_max" in caplog.messages[0]
    assert "9999 more" in caplog.messages[1]


def test_malformed_requests_are_counted_too(caplog: pytest.LogCaptureFixture) -> None:
    """Each ends its connection, and one line says how many there were."""
    world = World()
    with caplog.at_level(logging.WARNING, "kprod.broker"):
        for _ in range(50):
            world.client().send_frame(b"\x03\xe7\0\0\0\0\0\1\xff\xff")
        world.advance(10_000)

    assert len(caplog.messages) == 2
    assert "49 more" in caplog.messages[1]


def test_an_idle_connection_is_closed() -> None:
    """After ten minutes without a byte, as in Kafka; one that carried something stays."""
    world = World()
    idle, busy = world.client(), world.client()
    world.step()
    world.advance(599_999)
    assert busy.produced(batch())["error_code"] == ErrorCode.NONE
    assert not idle.stream.closed

    world.advance(2)

    assert idle.stream.closed
    assert not busy.stream.closed
    world.advance(600_000)
    assert busy.stream.closed


def test_half_sent_requests_give_way_to_those_that_move() -> None:
    """Past the total, the connection whose request has made no progress for longest is closed."""
    config = EmbeddedConfig(frame_bytes_max=50_000, queued_max_request_bytes=50_000)
    world = World(config=config)
    clients = [world.client() for _ in range(3)]
    for client in (*clients, clients[0]):
        client.stream.incoming += (40_000).to_bytes(4) + bytes(9_996)
        world.step()
    assert not any(client.stream.closed for client in clients)

    clients[2].stream.incoming += bytes(20_000)
    world.step()

    assert [client.stream.closed for client in clients] == [False, True, False]


def test_unread_answers_give_way_to_those_that_are_read() -> None:
    """Past the total, the connection that reads nothing for longest is closed."""
    world = World(config=EmbeddedConfig(queued_max_response_bytes=50_000))
    world.client().produced(batch(3_000))
    clients = [world.client() for _ in range(2)]
    for client in clients:
        client.stream.send_limit_bytes = 0
        client.fetch(0)

    assert [client.stream.closed for client in clients] == [True, False]


def test_a_bound_that_no_request_fits_into_is_rejected() -> None:
    """The largest request must be below the total of all."""
    with pytest.raises(ConfigError, match="queued_max_request_bytes"):
        EmbeddedConfig(queued_max_request_bytes=1_024)
