"""Heartbeats of group members over real connections, against an embedded cluster of one broker.

The members are in a process of their own: each has a connection, joins a group of ten, and sends a
heartbeat each 3 s. So the CPU time of this process is the broker's.
"""

import multiprocessing
import selectors
import socket
import struct
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec, structure_codec
from kprod.protocol.headers import decode_response_header, encode_request_header

GROUP_SIZE, INTERVAL_S, TOPIC = 10, 3.0, "orders"
SESSION_MS, REBALANCE_MS = 600_000, 600_000
_SIZE = struct.Struct(">i")
_JOIN, _SYNC, _HEARTBEAT = (ApiKey.JOIN_GROUP, 3), (ApiKey.SYNC_GROUP, 3), (ApiKey.HEARTBEAT, 4)


class Figures(NamedTuple):
    """The result of one run.

    Attributes:
        connections: How many.
        seconds: How long heartbeats were sent.
        heartbeats: How many were answered; all of them without an error.
        cpu_share: CPU time of the broker's process, as a share of those seconds.
        p50_us: Median time from a heartbeat to its response, in microseconds.
        p99_us: Its 99th percentile.
    """

    connections: int
    seconds: float
    heartbeats: int
    cpu_share: float
    p50_us: float
    p99_us: float


def measure(connections: int, seconds: float) -> Figures:
    """Run members on a number of connections, and measure.

    Args:
        connections: A multiple of ten.
        seconds: How long heartbeats are sent.

    Returns:
        The figures.
    """
    config = EmbeddedConfig(group_initial_rebalance_delay_ms=50)
    with EmbeddedCluster(brokers=1, topics={TOPIC: GROUP_SIZE}, config=config) as cluster:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        child = context.Process(
            target=_members, args=(theirs, cluster.bootstrap_servers, connections, seconds)
        )
        child.start()
        ours.recv()  # the groups are Stable
        before = time.process_time()
        took, times = ours.recv()
        spent = time.process_time() - before
        child.join()
        views = cluster.groups()
        assert len(views) == connections // GROUP_SIZE
        assert {it.state for it in views} == {"Stable"}
        assert {len(it.members) for it in views} == {GROUP_SIZE}
    times.sort()
    return Figures(
        connections,
        took,
        len(times),
        spent / took,
        times[len(times) // 2] * 1e6,
        times[len(times) * 99 // 100] * 1e6,
    )


class _Member:
    """One connection, with one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.identity: dict[str, Any] = {}
        self.sent_s = 0.0

    def send(self, api: tuple[ApiKey, int], body: Mapping[str, Any]) -> None:
        """Send a request."""
        frame = encode_request_header(*api, 1, "bench") + request_codec(*api).encode(body)
        self.sent_s = time.perf_counter()
        self.socket.sendall(_SIZE.pack(len(frame)) + frame)

    def take(self, api: tuple[ApiKey, int]) -> dict[str, Any]:
        """Wait for the response, which has no error."""
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        frame = self._read(size)
        _, at = decode_response_header(*api, frame)
        answer: dict[str, Any] = response_codec(*api).decode(frame[at:])
        assert answer["error_code"] == 0, answer
        return answer

    def _read(self, size: int) -> bytes:
        read = self.socket.recv(size, socket.MSG_WAITALL)
        assert len(read) == size
        return read


def _members(pipe: Connection, servers: str, connections: int, seconds: float) -> None:
    host, _, port = servers.partition(":")
    members = [_Member(host, int(port)) for _ in range(connections)]
    members[0].send((ApiKey.FIND_COORDINATOR, 2), {"key": "group-0", "key_type": 0})
    members[0].take((ApiKey.FIND_COORDINATOR, 2))
    for first in range(0, connections, GROUP_SIZE):
        _form(f"group-{first // GROUP_SIZE}", members[first : first + GROUP_SIZE])
    pipe.send("stable")
    pipe.send(_beat(members, seconds))


def _form(group_id: str, members: list[_Member]) -> None:
    """Bring a group to Stable."""
    metadata = struct.pack(">h", 0) + structure_codec("ConsumerProtocolSubscription", 0).encode(
        {"topics": [TOPIC]}
    )
    for member in members:
        member.send(
            _JOIN,
            {
                "group_id": group_id,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": metadata}],
            },
        )
    joined = [member.take(_JOIN) for member in members]
    ids = [it["member_id"] for it in joined]
    for member, answer in zip(members, joined, strict=True):
        is_leader = answer["leader"] == answer["member_id"]
        member.identity = {
            "group_id": group_id,
            "generation_id": answer["generation_id"],
            "member_id": answer["member_id"],
        }
        assignments = [{"member_id": it, "assignment": bytes(50)} for it in ids]
        member.send(_SYNC, {**member.identity, "assignments": assignments if is_leader else []})
    for member in members:
        member.take(_SYNC)


def _beat(members: list[_Member], seconds: float) -> tuple[float, list[float]]:
    """Send heartbeats, spread over the interval; returns the seconds and the round trips."""
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
        began = time.perf_counter()
        step, due, waiting = INTERVAL_S / len(members), began, 0
        number = 0
        while time.perf_counter() - began < seconds or waiting:
            now = time.perf_counter()
            if now >= due and now - began < seconds:
                member = members[number % len(members)]
                member.send(_HEARTBEAT, member.identity)
                number, due, waiting = number + 1, due + step, waiting + 1
                continue
            for key, _ in selector.select(max(0.0, min(due - now, step))):
                key.data.take(_HEARTBEAT)
                times.append(time.perf_counter() - key.data.sent_s)
                waiting -= 1
        return time.perf_counter() - began, times
