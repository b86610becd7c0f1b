"""The replica that a consumer reads from: the one of its rack, and the leader when that fails."""

from typing import Any

import pytest

from kprod.broker import EmbeddedCluster
from kprod.protocol.api import ApiKey
from tests.consumer.reading import (
    consumer_of,
    fill,
    poll_count,
    scripted_consumer,
    scripted_poll,
)
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster

LEADER, NEAR = 1, 2
NOT_AVAILABLE, OUT_OF_RANGE, NOT_LEADER = 78, 1, 6


def two_nodes(*, follower_code: int = 0, codes_max: int = 10**9) -> LogCluster:
    """A leader that names node 2, and node 2, which serves until it answers with a code."""
    log = Log()
    for number in range(4):
        log.append(b"%d" % number)
    elsewhere = Log()  # makes metadata tell of node 2
    elsewhere.leader_id = NEAR
    cluster = LogCluster(log, elsewhere)
    left = [codes_max]

    def answer(_: LogCluster, node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.FETCH:
            return None
        (topic,) = request.body["topics"]
        told: list[dict[str, Any]] = []
        for entry in topic["partitions"]:
            one: dict[str, Any] = {"partition_index": entry["partition"], "records": b""}
            if entry["partition"] == 0 and node_id == LEADER and request.body["rack_id"]:
                one["preferred_read_replica"] = NEAR
            elif entry["partition"] == 0 and follower_code and left[0] > 0:
                left[0] -= 1
                one["error_code"] = follower_code
            elif entry["partition"] == 0:
                one["records"] = log.read(entry["fetch_offset"], 1)
            told.append(one)
        return {"responses": [{"topic": topic["topic"], "partitions": told}]}

    cluster.rules.append(answer)
    return cluster


def nodes_asked(cluster: LogCluster) -> list[int]:
    """The nodes that were asked for partition 0, in order."""
    return [
        node_id
        for node_id, request in cluster.requests
        if request.api_key == ApiKey.FETCH
        and any(it["partition"] == 0 for it in request.body["topics"][0]["partitions"])
    ]


def test_the_replica_that_the_leader_names_is_read() -> None:
    """For `metadata_max_age_ms`; then the leader is asked again."""
    cluster = two_nodes()
    with scripted_consumer(
        cluster, "orders", client_rack="b", metadata_max_age_ms=5_000
    ) as consumer:
        assert [it.offset for it in scripted_poll(consumer, 4)] == [0, 1, 2, 3]
        asked = nodes_asked(cluster)
        assert asked[:2] == [LEADER, NEAR]
        assert LEADER not in asked[1:]


def test_without_a_rack_the_leader_is_read() -> None:
    """Nothing is said that a leader could name a replica for."""
    cluster = two_nodes()
    with scripted_consumer(cluster, "orders") as consumer:
        assert len(scripted_poll(consumer, 4)) == 4
    assert set(nodes_asked(cluster)) == {LEADER}


@pytest.mark.parametrize("code", [NOT_AVAILABLE, OUT_OF_RANGE, NOT_LEADER])
def test_the_leader_is_asked_when_a_follower_fails(code: int) -> None:
    """Nothing is reset or skipped: the leader knows whether an offset is in the log."""
    cluster = two_nodes(follower_code=code, codes_max=1)
    with scripted_consumer(cluster, "orders", client_rack="b") as consumer:
        assert [it.offset for it in scripted_poll(consumer, 4)] == [0, 1, 2, 3]
    assert nodes_asked(cluster)[:3] == [LEADER, NEAR, LEADER]
    assert cluster.count(ApiKey.LIST_OFFSETS) == 2  # each partition's leader, at the beginning


def test_the_leader_is_asked_when_a_follower_is_lost() -> None:
    """Its connection ends in the middle of a fetch; no record twice, none missing."""
    cluster = two_nodes()
    lost: list[int] = []

    def lose(_: LogCluster, node_id: int, request: PeerRequest) -> str | None:
        if lost or request.api_key != ApiKey.FETCH or nodes_asked(cluster)[-1:] != [NEAR]:
            return None
        lost.append(node_id)
        return "close"

    cluster.rules.insert(0, lose)
    with scripted_consumer(cluster, "orders", client_rack="b") as consumer:
        assert [it.offset for it in scripted_poll(consumer, 4)] == [0, 1, 2, 3]
    assert lost
    assert nodes_asked(cluster)[:3] == [LEADER, NEAR, LEADER]


def test_records_come_from_the_rack_while_the_leader_stalls() -> None:
    """Only the first response needs the leader."""
    with EmbeddedCluster(brokers=3, topics={"t": 1}, racks=["a", "b", "c"]) as cluster:
        fill(cluster, "t", 500, batch_size=1_000)
        leader = cluster.describe("t", 0).leader_id
        near = (leader + 1) % 3
        with consumer_of(
            cluster, "t", client_rack="abc"[near], max_partition_fetch_bytes=1_000
        ) as consumer:
            found = poll_count(consumer, 1)
            cluster.faults.stall(leader)
            try:
                found += poll_count(consumer, 500 - len(found))
            finally:
                cluster.faults.resume(leader)
    assert [record.offset for record in found] == list(range(500))
