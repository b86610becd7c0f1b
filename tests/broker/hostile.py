"""Hostile clients of the embedded broker, each in a process of its own, with what they cost.

`python -m tests.broker.hostile NAME` plays one and prints, as JSON, the bytes that the broker was
sent, by how much the process grew at its peak, and whether another client was served afterwards.

The clients are streams in memory and the cluster is stepped by hand, so nothing here depends on
time.
"""

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.error_table import ErrorCode
from kprod.protocol.headers import encode_request_header
from tests.broker.world import Client, World, batch

_STATUS = Path("/proc/self/status")
_MEBIBYTE = 1 << 20


def _peak_bytes() -> int:
    (line,) = (
        it for it in _STATUS.read_text(encoding="utf-8").splitlines() if it.startswith("VmHWM")
    )
    return int(line.split()[1]) << 10


def frame_of(api: ApiKey, version: int, body: dict[str, object]) -> bytes:
    """A request as it goes over the wire, its size included."""
    frame = encode_request_header(api, version, 1, "hostile")
    frame += request_codec(api, version).encode(body)
    return len(frame).to_bytes(4) + frame


def half_sent_frames(world: World) -> int:
    """28 clients announce 100 MB each and send one."""
    received = 0
    for _ in range(28):
        stream = world.client().stream
        stream.incoming += (100_000_000).to_bytes(4)
        for _ in range(16):
            stream.incoming += bytes(65_536)
            world.step()
        received += 4 + 16 * 65_536
    return received


def a_million_partitions(world: World) -> int:
    """One request of some 160 bytes wants ten topics of 100,000 partitions."""
    topics = [
        {"name": f"t{index}", "num_partitions": 100_000, "replication_factor": 1}
        for index in range(10)
    ]
    return _send(world, frame_of(ApiKey.CREATE_TOPICS, 5, {"topics": topics}))


def many_requests_for_partitions(world: World) -> int:
    """30 requests want 9,000 partitions each, which one request may have."""
    received = 0
    for index in range(30):
        topic = {"name": f"t{index}", "num_partitions": 9_000, "replication_factor": 1}
        received += _send(world, frame_of(ApiKey.CREATE_TOPICS, 5, {"topics": [topic]}))
    return received


def many_new_topics(world: World) -> int:
    """One request asks about 200,000 topics that do not exist."""
    # Written by hand: the fields of all these topics would be counted as the broker's memory.
    frame = bytearray(encode_request_header(ApiKey.METADATA, 4, 1, "hostile"))
    frame += (200_000).to_bytes(4)
    for index in range(200_000):
        frame += b"\0\7t%06d" % index
    frame += b"\1"
    return _send(world, len(frame).to_bytes(4) + frame)


def answers_that_nobody_reads(world: World) -> int:
    """Eight clients ask for a megabyte 60 times each, and read nothing."""
    world.client().produced(batch(10_000))
    entry = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": _MEBIBYTE}
    body = {
        "max_bytes": 1 << 30,
        "session_epoch": -1,
        # The same partition again and again: each is answered.
        "topics": [{"topic": "orders", "partitions": [entry] * 5}],
    }
    frame = frame_of(ApiKey.FETCH, 12, body)
    received = 0
    for _ in range(8):
        stream = world.client().stream
        stream.send_limit_bytes = 0
        received += 60 * len(frame)
        stream.incoming += 60 * frame
    for _ in range(10):
        world.step()
    return received


def _send(world: World, frame: bytes) -> int:
    stream = world.client().stream
    stream.incoming += frame
    for _ in range(100):
        world.step()
    return len(frame)


def is_served(client: Client) -> bool:
    """Whether a client's request is answered within the steps of one turn."""
    code: int = client.produced(batch())["error_code"]
    return code == ErrorCode.NONE


CLIENTS: dict[str, Callable[[World], int]] = {
    client.__name__: client
    for client in (
        half_sent_frames,
        a_million_partitions,
        many_requests_for_partitions,
        many_new_topics,
        answers_that_nobody_reads,
    )
}


def main(name: str) -> None:
    """Play one client and print what it cost."""
    world = World(brokers=1)
    honest = world.client()
    assert is_served(honest)
    gc.collect()
    before = _peak_bytes()
    received_bytes = CLIENTS[name](world)
    grown_bytes = _peak_bytes() - before
    cost = {
        "received_bytes": received_bytes,
        "grown_bytes": grown_bytes,
        "is_served": is_served(honest),
    }
    sys.stdout.write(json.dumps(cost))


if __name__ == "__main__":
    main(sys.argv[1])
