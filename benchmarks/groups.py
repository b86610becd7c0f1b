"""Measures the embedded broker's group coordinator: heartbeats, loading, joins.

Without sockets, at the handlers: 10,000 members in groups of ten that heartbeat each 3 s of a
manual clock, as a share of a core; a coordinator's load of 1,000 groups of 10 members with 100
offsets each; and what one more join costs in a join phase that has 10 or 1,000 members. Then the
heartbeats of 1,000 members over as many real connections (`group_connections.py`), whose process
needs 2,100 open files.

    python benchmarks/groups.py [--quick] [--json FILE]
"""

import argparse
import json
import resource
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from group_connections import measure

from kprod.broker.cluster_state import ClusterState
from kprod.broker.config import EmbeddedConfig
from kprod.broker.group.committing import commit
from kprod.broker.group.records import Offset, OffsetKey
from kprod.broker.handlers.registry import make_handlers
from kprod.broker.request import Request
from kprod.clock import ManualClock
from kprod.model import Node
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec, structure_codec
from kprod.protocol.headers import decode_response_header

SESSION_MS, REBALANCE_MS, INTERVAL_MS = 45_000, 300_000, 3_000
GROUP_SIZE, OFFSETS = 10, 100
TOPIC = "orders"


class Answer:
    """A way back that keeps the frame."""

    def __init__(self) -> None:
        """Create a channel without a frame."""
        self.frame = b""

    def send(self, frame: bytes) -> None:
        """Store the frame."""
        self.frame = frame


class Broker:
    """One broker's handlers, on a manual clock."""

    def __init__(self) -> None:
        """Make the topics."""
        self.clock = ManualClock(timestamp_ms=1_700_000_000_000)
        self.state = ClusterState(EmbeddedConfig(), self.clock, [0])
        self.state.nodes[0] = Node(0, "127.0.0.1", 9_092)
        self.state.create_topic(TOPIC, partition_count=OFFSETS)
        self.state.groups.offsets_topic()
        self.handlers = make_handlers(self.state)

    def request(self, api: ApiKey, version: int, body: Mapping[str, Any]) -> Request:
        """A request in hand."""
        request = Request(
            Answer(),  # type: ignore[arg-type]  # all that handlers need of it
            node_id=0,
            api_key=api,
            api_version=version,
            correlation_id=1,
            client_id="bench",
        )
        request.body = dict(body)
        request.rejection = self.handlers[api].reject
        return request

    def handle(self, api: ApiKey, version: int, body: Mapping[str, Any]) -> Request:
        """Handle a request."""
        request = self.request(api, version, body)
        self.handlers[api].handle(request)
        return request

    def settle(self) -> None:
        """Let timers that are due fire."""
        for _ in range(3):
            self.state.timer.advance(self.clock.now_ms())


def answer_of(request: Request) -> dict[str, Any]:
    """The response that a request has had."""
    frame = request._reply.frame  # type: ignore[attr-defined]  # noqa: SLF001 - the bench's own
    _, at = decode_response_header(request.api_key, request.api_version, frame)
    return response_codec(request.api_key, request.api_version).decode(frame[at:])


def join_body(group_id: str, member_id: str = "") -> dict[str, Any]:
    """A consumer's join."""
    metadata = struct.pack(">h", 0) + structure_codec("ConsumerProtocolSubscription", 0).encode(
        {"topics": [TOPIC]}
    )
    return {
        "group_id": group_id,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }


def form(broker: Broker, group_id: str, size: int) -> list[dict[str, Any]]:
    """Bring a group to Stable.

    Returns:
        The heartbeats of its members.
    """
    joins = [broker.handle(ApiKey.JOIN_GROUP, 3, join_body(group_id)) for _ in range(size)]
    broker.settle()
    joined = [answer_of(it) for it in joins]
    bodies = [
        {
            "group_id": group_id,
            "generation_id": it["generation_id"],
            "member_id": it["member_id"],
            "group_instance_id": None,
        }
        for it in joined
    ]
    followers = [it for it in bodies if it["member_id"] != joined[0]["leader"]]
    leader = next(it for it in bodies if it["member_id"] == joined[0]["leader"])
    assignments = [{"member_id": it["member_id"], "assignment": bytes(50)} for it in bodies]
    sync = {"protocol_type": None, "protocol_name": None}
    for body in followers:
        broker.handle(ApiKey.SYNC_GROUP, 3, {**body, **sync, "assignments": []})
    broker.handle(ApiKey.SYNC_GROUP, 3, {**leader, **sync, "assignments": assignments})
    return bodies


def heartbeats(members: int, rounds: int) -> float:
    """CPU time of heartbeats, as a share of the time in which they are due."""
    broker = Broker()
    bodies = [
        body
        for number in range(members // GROUP_SIZE)
        for body in form(broker, f"group-{number}", GROUP_SIZE)
    ]
    began = time.process_time()
    for _ in range(rounds):
        for index, body in enumerate(bodies):
            if index % (len(bodies) // 30) == 0:
                broker.clock.advance(INTERVAL_MS // 30)
                broker.settle()
            broker.handle(ApiKey.HEARTBEAT, 4, body)
    spent = time.process_time() - began
    views = broker.state.groups.views()
    assert all(it.state == "Stable" for it in views)
    return spent / (rounds * INTERVAL_MS / 1_000)


def load(groups: int) -> tuple[float, float]:
    """Seconds that a replay of all groups takes, and its CPU seconds."""
    broker = Broker()
    for number in range(groups):
        group_id = f"group-{number}"
        form(broker, group_id, GROUP_SIZE)
        shard = broker.state.groups.shard(0, group_id)
        commits = [
            (OffsetKey(group_id, TOPIC, index), Offset(index, 0, "", broker.clock.timestamp_ms()))
            for index in range(OFFSETS)
        ]
        commit(shard, commits, lambda _: None)
    began, began_cpu = time.perf_counter(), time.process_time()
    for partition in broker.state.groups.offsets_topic().partitions:
        partition.leader_epoch += 1
        broker.state.groups.on_partition_changed(partition)
    spent, spent_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    assert len(broker.state.groups.views()) == groups
    return spent, spent_cpu


def join_cost(size: int, repetitions: int) -> float:
    """Microseconds of one join that is parked behind `size` others."""
    broker = Broker()
    form(broker, "group", 1)
    for _ in range(size):
        broker.handle(ApiKey.JOIN_GROUP, 3, join_body("group"))
    began = time.process_time()
    for _ in range(repetitions):
        broker.handle(ApiKey.JOIN_GROUP, 3, join_body("group"))
    return (time.process_time() - began) / repetitions * 1e6


def main() -> None:
    """Print the figures, and store them if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    share = 10 if given.quick else 1
    members, groups, connections = 10_000 // share, 1_000 // share, 1_000 // share
    figures: dict[str, Any] = {"members": members, "groups": groups}
    beats_share = figures["heartbeats_core_share"] = heartbeats(members, 3)
    print(f"heartbeats of {members} members each 3 s: {beats_share:.1%} of a core")
    load_s, load_cpu_s = figures["load_s"], figures["load_cpu_s"] = load(groups)
    print(
        f"load of {groups} groups of {GROUP_SIZE} with {OFFSETS} offsets: {load_s:.2f} s,"
        f" {load_cpu_s:.2f} s of CPU"
    )
    few, many = join_cost(10, 100), join_cost(1_000 // share, 100)
    figures |= {"join_beside_10_us": few, "join_beside_all_us": many}
    print(f"one join beside 10: {few:.0f} us, beside {1_000 // share}: {many:.0f} us")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8_192), most))
    beats = measure(connections, 3.0 if given.quick else 15.0)
    figures["connections"] = beats._asdict()
    print(
        f"{connections} connections, {beats.heartbeats} heartbeats in {beats.seconds:.1f} s:"
        f" {beats.cpu_share:.1%} of a core, p50 {beats.p50_us:.0f} us, p99 {beats.p99_us:.0f} us"
    )
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
