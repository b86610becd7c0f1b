"""Fetches against scripted brokers: paused, unassigned and lost ones; control batches; leaders."""

from typing import Any

import pytest

from kprod import Consumer
from kprod.consumer.fetch_buffer import AHEAD_MAX
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.consumer.sealing import COUNT, RECORDS, sealed
from tests.consumer.test_kafka_cases import (
    ABORT,
    FIRST,
    SECOND,
    end,
    read_committed,
    send,
    two_partitions,
)
from tests.consumer.test_scripted import log_of, once
from tests.network.scripted import Peer, PeerRequest
from tests.network.scripted_logs import Log, LogCluster
from tests.oracle.message_set import encode_message

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def turn(consumer: Consumer, cluster: LogCluster) -> None:
    """One turn of the I/O thread's loop."""
    consumer._kprod.parts.loop.run_once(cluster.clock.now_ms())  # type: ignore[union-attr]


def fetched(cluster: LogCluster) -> list[tuple[int, int]]:
    """Partition and offset of all fetches."""
    return [
        (entry["partition"], entry["fetch_offset"])
        for _, request in cluster.requests
        if request.api_key == ApiKey.FETCH
        for topic in request.body["topics"]
        for entry in topic["partitions"]
    ]


def test_a_partition_that_is_paused_while_its_fetch_is_out() -> None:
    """Its records are kept until it is resumed, and not fetched again."""
    cluster = two_partitions()
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        while not fetched(cluster):
            turn(consumer, cluster)
        consumer.pause(P0)
        assert consumer.poll(0.3) == []
        consumer.resume(P0)
        assert [it.offset for it in scripted_poll(consumer, 10)] == list(range(10))
    assert fetched(cluster).count((0, 0)) == 1


def test_a_paused_partition_is_not_fetched() -> None:
    """The other one is."""
    cluster = two_partitions()
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0, P1])
        consumer.pause(P0)
        assert {it.partition for it in scripted_poll(consumer, 10)} == {1}
    assert {partition for partition, _ in fetched(cluster)} == {1}


def ten_beside_none() -> tuple[LogCluster, Log]:
    """Ten batches in partition 0; and partition 1, which is empty."""
    full, empty = Log(), Log()
    for number in range(10):
        full.append(b"%d" % number)
    return LogCluster(full, empty), empty


def fill_ahead(consumer: Consumer, cluster: LogCluster) -> None:
    """Assign both partitions, and fetch as much of partition 0 as is fetched ahead."""
    consumer.assign([P0, P1])
    partition = consumer._kprod.parts.assignment.partitions[P0]  # type: ignore[union-attr]
    while partition.ahead_count < AHEAD_MAX:
        turn(consumer, cluster)


def test_a_broker_with_a_full_partition_is_not_asked_for_an_idle_one() -> None:
    """It would keep the fetch until the idle one has records, and so the full one's next ones."""
    cluster, idle = ten_beside_none()
    with scripted_consumer(cluster, max_partition_fetch_bytes=1) as consumer:
        fill_ahead(consumer, cluster)
        asked = cluster.count(ApiKey.FETCH)
        for _ in range(10):
            turn(consumer, cluster)
        assert cluster.count(ApiKey.FETCH) == asked
        assert [it.offset for it in scripted_poll(consumer, 10)] == list(range(10))
        idle.append(b"at last")
        (record,) = scripted_poll(consumer, 1)
        assert (record.partition, record.value) == (1, b"at last")


@pytest.mark.parametrize("way", ["paused", "sought", "unassigned"])
def test_a_full_partition_that_is_not_wanted_holds_up_no_other(way: str) -> None:
    """The other one's records come."""
    cluster, other = ten_beside_none()
    with scripted_consumer(cluster, max_partition_fetch_bytes=1) as consumer:
        fill_ahead(consumer, cluster)
        other.append(b"other")
        if way == "paused":
            consumer.pause(P0)
        elif way == "sought":
            consumer.seek(P0, 10)
        else:
            consumer.assign([P1])
        (record,) = scripted_poll(consumer, 1)
        assert (record.partition, record.value) == (1, b"other")


def test_a_partition_with_fetched_records_that_is_unassigned() -> None:
    """They are dropped; assigned again, it begins where its policy says."""
    cluster = two_partitions()
    with scripted_consumer(cluster, max_poll_records=2) as consumer:
        consumer.assign([P0])
        assert [it.offset for it in scripted_poll(consumer, 2)] == [0, 1]
        consumer.assign([P1])
        assert {it.partition for it in scripted_poll(consumer, 10)} == {1}
        consumer.assign([P0])
        assert [it.offset for it in scripted_poll(consumer, 10)] == list(range(10))


def test_close_twice_closes_the_session_once() -> None:
    """By its id and the epoch −1, where no fetch is out."""
    cluster = LogCluster(log_of([b"a"]))

    def give_session(made: LogCluster, node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.FETCH:
            return None
        if not request.body["topics"]:
            return {"session_id": 7, "responses": []}
        return {**made.usual_response(node_id, request), "session_id": 7}

    cluster.rules.append(give_session)
    consumer = scripted_consumer(cluster, "orders")
    scripted_poll(consumer, 1)
    consumer.pause(P0)
    consumer.poll(0.3)
    consumer.close()
    consumer.close()
    left = [it for transport in cluster.transports for it in Peer(transport).requests()]
    fetches = [it.body for it in left if it.api_key == ApiKey.FETCH]
    assert [(it["session_id"], it["session_epoch"]) for it in fetches] == [(7, -1)]
    assert all(transport.is_closed for transport in cluster.transports)


@pytest.mark.parametrize("code", [70, 71, 100, 106])
def test_an_error_of_the_whole_response_begins_the_session_again(code: int) -> None:
    """With a full request; no record twice, none missing."""
    cluster = LogCluster(log_of(*[[b"a"]] * 6))
    seen: list[tuple[int, int, int]] = []

    def give_session(made: LogCluster, node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.FETCH:
            return None
        body = request.body
        seen.append((body["session_id"], body["session_epoch"], len(body["topics"])))
        if len(seen) == 2:
            return {"error_code": code, "session_id": 0, "responses": []}
        if not body["topics"]:
            return {"session_id": 9, "responses": []}
        return {**made.usual_response(node_id, request), "session_id": 9}

    cluster.rules.append(give_session)
    with scripted_consumer(cluster, "orders", max_partition_fetch_bytes=80) as consumer:
        assert [it.offset for it in scripted_poll(consumer, 6)] == list(range(6))
    assert seen[0] == (0, 0, 1)
    assert seen[1] == (9, 1, 1)
    assert seen[2][1:] == (0, 1)


def test_a_rejection_that_names_the_new_leader() -> None:
    """It is asked instead (KIP-951); no record twice, none missing."""
    cluster = LogCluster(log_of([b"a"], [b"b"]), log_of(leader_id=2))
    moved: list[bool] = []

    def move(made: LogCluster, node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.FETCH or node_id != 1 or moved:
            return None
        if request.body["topics"][0]["partitions"][0]["fetch_offset"] != 2:
            return None
        moved.append(True)
        made.logs[0].leader_id, made.logs[0].epoch = 2, 5
        made.logs[0].append(b"c")
        entry = {
            "partition_index": 0,
            "error_code": 6,
            "current_leader": {"leader_id": 2, "leader_epoch": 5},
        }
        return {"responses": [{"topic": "orders", "partitions": [entry]}]}

    cluster.rules.append(move)
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        assert [it.offset for it in scripted_poll(consumer, 3)] == [0, 1, 2]
    assert moved


def test_the_epoch_of_a_record_is_its_batch_s() -> None:
    """Old formats have none."""
    log = Log()
    log.entries.append((0, 0, encode_message((0, 5, b"k", b"old"), magic=1)))
    log.append(b"a", partition_leader_epoch=4)
    with scripted_consumer(LogCluster(log), "orders") as consumer:
        assert [it.leader_epoch for it in scripted_poll(consumer, 2)] == [None, 4]


def test_an_abort_marker_without_records() -> None:
    """Compaction took the transaction's records; the marker alone takes its offset."""
    log = Log()
    end(log, FIRST, 3, ABORT)
    send(log, SECOND, 4, b"open")
    assert read_committed(log, (FIRST, 0), (SECOND, 4)) == ([], 5)


def test_a_batch_without_records_takes_its_offsets() -> None:
    """Compaction keeps the last batch of a producer, if only its header."""
    log = Log()
    log.append(b"a")
    log.append(b"x", b"y")
    log.append(b"b")
    first, last, batch = log.entries[1]
    log.entries[1] = (first, last, sealed(batch[:COUNT] + bytes(4)))
    assert len(log.entries[1][2]) == RECORDS
    with scripted_consumer(LogCluster(log), "orders") as consumer:
        assert [it.offset for it in scripted_poll(consumer, 2)] == [0, 3]
        assert consumer.position(P0) == 4


def test_aborted_records_are_read_uncommitted() -> None:
    """The list of aborted transactions is not even read."""
    log = Log()
    send(log, FIRST, 0, b"aborted")
    end(log, FIRST, 1, ABORT)
    cluster = LogCluster(log)
    told = [{"producer_id": FIRST, "first_offset": 0}]
    records = b"".join(batch for _, _, batch in log.entries)
    part = {"partition_index": 0, "records": records, "aborted_transactions": told}
    cluster.rules.append(
        once(ApiKey.FETCH, {"responses": [{"topic": "orders", "partitions": [part]}]})
    )
    with scripted_consumer(cluster, "orders") as consumer:
        assert [it.value for it in scripted_poll(consumer, 1)] == [b"aborted"]
        consumer.poll(0.1)
        assert consumer.position(P0) == 2
