"""Faults that the simulation found: partitions that stood still, and fetches without end."""

import contextlib
from typing import Any

import pytest

from kprod import Consumer
from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer_face import engine_of
from kprod.consumer.position import new_start
from kprod.errors import DeserializationFailed, KprodError, WakeupError
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import (
    LIMIT_S,
    consumer_of,
    fill,
    poll_count,
    scripted_consumer,
    scripted_poll,
)
from tests.consumer.test_scripted import fetch_answer, log_of, once, truncation_cluster
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster

P0 = TopicPartition("orders", 0)
ABORTED_BLOCKS = 5
TURNS = 50


def _turn(cluster: LogCluster, consumer: Consumer, count: int = TURNS) -> None:
    """Let the loop take turns, while the application does not poll."""
    parts = consumer._kprod.parts  # type: ignore[union-attr]
    for _ in range(count):
        parts.loop.run_once(cluster.clock.now_ms())


def test_an_offset_out_of_range_is_fetched_once() -> None:
    """Until the application polls, nothing can be done about it."""
    cluster = LogCluster(log_of([b"a"]))
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 500)
        _turn(cluster, consumer)
        assert cluster.count(ApiKey.FETCH) == 1
        assert [record.offset for record in scripted_poll(consumer, 1)] == [0]


def test_a_log_that_was_cut_is_fetched_again_only_when_it_was_heard() -> None:
    """The leader says so in its response to a fetch."""
    cluster = truncation_cluster(6)
    with scripted_consumer(cluster, "orders") as consumer:
        assert len(scripted_poll(consumer, 10)) == 10
        _turn(cluster, consumer, 3)
        diverging = {"epoch": 0, "end_offset": 6}
        cluster.rules.append(once(ApiKey.FETCH, fetch_answer(diverging_epoch=diverging)))
        _turn(cluster, consumer, 3)
        before = cluster.count(ApiKey.FETCH)
        _turn(cluster, consumer)
        assert cluster.count(ApiKey.FETCH) == before
        assert scripted_poll(consumer, 1)[0].offset == 6


def test_a_broker_gets_one_fetch_at_a_time() -> None:
    """However many turns the loop takes, and whatever else it is asked for."""
    cluster = LogCluster(log_of([b"a"]), log_of([b"b"]))
    cluster.rules.append(
        lambda _cluster, _node, request: "silence" if request.api_key == ApiKey.FETCH else None
    )
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        while not cluster.count(ApiKey.FETCH):
            _turn(cluster, consumer, 1)
        consumer.assign([P0, TopicPartition("orders", 1)])
        _turn(cluster, consumer, 5)
        assert cluster.count(ApiKey.FETCH) == 1


def test_an_unknown_position_of_a_partition_that_another_thread_gave_up_is_an_error() -> None:
    """The call does not turn round until its time is over."""
    cluster = LogCluster(log_of([b"a"]))
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])

        def give_up(_cluster: LogCluster, _node: int, request: PeerRequest) -> None:
            if request.api_key == ApiKey.LIST_OFFSETS:
                consumer.assign([TopicPartition("orders", 1)])

        cluster.rules.append(give_up)
        with pytest.raises(KprodError, match="not assigned"):
            consumer.position(P0, 30)


def test_a_session_that_the_broker_has_lost_begins_anew() -> None:
    """With a full request, which names every partition."""
    cluster = LogCluster(log_of([b"a"], [b"b"]))
    answers = iter(({"session_id": 5, "responses": []}, {"error_code": 70, "responses": []}))
    asked: list[tuple[int, int]] = []

    def lose(_cluster: LogCluster, _node: int, request: PeerRequest) -> dict[str, object] | None:
        if request.api_key != ApiKey.FETCH:
            return None
        asked.append((request.body["session_id"], request.body["session_epoch"]))
        return next(answers, None)

    cluster.rules.append(lose)
    with scripted_consumer(cluster, "orders") as consumer:
        assert len(scripted_poll(consumer, 2)) == 2
    assert asked[:3] == [(0, 0), (5, 1), (0, 0)]


def test_fetched_records_of_a_paused_partition_wait() -> None:
    """Those of others do not."""
    cluster = LogCluster(log_of([b"a"]), log_of([b"b"]))
    with scripted_consumer(cluster, "orders") as consumer:
        consumer.assign([P0, TopicPartition("orders", 1)])
        _turn(cluster, consumer)
        consumer.pause(P0)
        assert [record.partition for record in consumer.poll(1)] == [1]
        consumer.resume(P0)
        assert [record.partition for record in consumer.poll(1)] == [0]


def test_a_wakeup_ends_one_poll() -> None:
    """Though there are records; the next poll returns them."""
    cluster = LogCluster(log_of([b"a"]))
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        _turn(cluster, consumer)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(1)
        assert [record.value for record in consumer.poll(1)] == [b"a"]


def test_an_error_of_a_fetch_is_followed_by_a_pause() -> None:
    """As long as the back-off says, so a broker that rejects everything is asked seldom."""
    cluster = LogCluster(log_of([b"a"]))
    cluster.rules.append(
        lambda _cluster, _node, request: (
            fetch_answer(error_code=78) if request.api_key == ApiKey.FETCH else None
        )
    )
    with scripted_consumer(cluster, retry_backoff_ms=1_000) as consumer:
        consumer.assign([P0])
        began_ms = cluster.clock.now_ms()
        _turn(cluster, consumer)
        seconds = (cluster.clock.now_ms() - began_ms) / 1_000
        assert cluster.count(ApiKey.FETCH) <= 2 + seconds / 0.8


def test_a_reset_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Where reading continues, and why; in one line."""
    with scripted_consumer(LogCluster(log_of([b"a"]))) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 500)
        assert [record.offset for record in scripted_poll(consumer, 1)] == [0]
    (line,) = [it.getMessage() for it in caplog.records if "continues" in it.getMessage()]
    assert "offset 500 is not in the log; reading continues at offset 0" in line


@pytest.mark.parametrize(
    ("isolation_level", "number"), [("read_uncommitted", 0), ("read_committed", 1)]
)
def test_the_end_of_a_log_is_that_of_the_isolation_level(isolation_level: str, number: int) -> None:
    """With read_committed it is the last stable offset."""
    cluster = LogCluster(log_of([b"a"]))
    with scripted_consumer(cluster, isolation_level=isolation_level) as consumer:
        assert consumer.end_offsets([P0]) == {P0: 1}
    (asked,) = [it for _, it in cluster.requests if it.api_key == ApiKey.LIST_OFFSETS]
    assert asked.body["isolation_level"] == number


def _aborted_log() -> Log:
    """Batches of one transaction that is aborted, each of them a block, and a record behind it."""
    log = Log()
    for _ in range(ABORTED_BLOCKS):
        log.append(b"gone", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append(b"kept")
    return log


@pytest.mark.parametrize("way", ["poll", "loop", "columns"])
def test_one_call_reads_past_blocks_without_records(way: str) -> None:
    """Two such blocks are all that is fetched ahead: they must not wait for the next call."""
    log = _aborted_log()
    cluster = LogCluster(log)
    usual = cluster.usual_response

    def with_aborted(node_id: int, request: object) -> dict[str, object]:
        body = usual(node_id, request)  # type: ignore[arg-type]
        for topic in body.get("responses", ()):
            for answer in topic["partitions"]:
                answer["aborted_transactions"] = [{"producer_id": 7, "first_offset": 0}]
        return body

    cluster.usual_response = with_aborted  # type: ignore[method-assign]
    with scripted_consumer(
        cluster,
        "orders",
        isolation_level="read_committed",
        max_partition_fetch_bytes=1,
        consumer_timeout_ms=30_000,
    ) as consumer:
        if way == "poll":
            (record,) = consumer.poll(30)
            assert record.offset == ABORTED_BLOCKS
        elif way == "loop":
            assert next(iter(consumer)).offset == ABORTED_BLOCKS
        else:
            assert consumer.poll_arrow(30)["offset"].to_pylist() == [ABORTED_BLOCKS]


def test_an_epoch_that_the_log_does_not_know_is_not_asked_for_again() -> None:
    """The log has all that was read, under an older epoch than a response had named."""
    cluster = LogCluster(log_of([b"a"], [b"b"], [b"c"]))
    epochs: list[int] = []

    def diverge(_cluster: LogCluster, _node: int, request: object) -> dict[str, object] | None:
        if request.api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH:  # type: ignore[attr-defined]
            answer = {"partition": 0, "leader_epoch": 1, "end_offset": 1}
            return {"topics": [{"topic": "orders", "partitions": [answer]}]}
        if request.api_key != ApiKey.FETCH:  # type: ignore[attr-defined]
            return None
        (entry,) = request.body["topics"][0]["partitions"]  # type: ignore[attr-defined]
        epochs.append(entry["last_fetched_epoch"])
        if entry["last_fetched_epoch"] > 1:
            return fetch_answer(diverging_epoch={"epoch": 1, "end_offset": 1})
        return None

    cluster.rules.append(diverge)
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 1, 9)
        assert [record.offset for record in scripted_poll(consumer, 2)] == [1, 2]
    assert epochs[0] == 9
    assert epochs[1] == 1


def test_blocks_behind_a_record_that_fails_wait_for_it() -> None:
    """Another partition may go first, but none of the records behind it."""
    cluster = LogCluster(log_of(*[[b"%d" % number] for number in range(6)]), log_of([b"8"], [b"9"]))
    failures = [b"2", b"2", b"2"]

    def deserializer(value: bytes) -> bytes:
        if failures and failures[0] == bytes(value):
            raise ValueError(failures.pop(0))
        return value

    found: list[tuple[int, int]] = []
    with scripted_consumer(
        cluster, "orders", max_partition_fetch_bytes=1, value_deserializer=deserializer
    ) as consumer:
        for _ in range(60):
            _turn(cluster, consumer)
            with contextlib.suppress(DeserializationFailed):
                found += [(record.partition, record.offset) for record in consumer.poll(0.1)]
    assert [offset for partition, offset in found if partition == 0] == list(range(6))
    assert [offset for partition, offset in found if partition == 1] == [0, 1]
    assert not failures


def test_a_closed_consumer_holds_no_memory() -> None:
    """Nor what the last poll has taken."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        fill(cluster, "t", 10)
        consumer = consumer_of(cluster, "t")
        assert len(consumer.poll(LIMIT_S)) == 10
        consumer.close()
        buffer = consumer._kprod.parts.buffer  # type: ignore[union-attr]
        buffer.take_freed()
        assert buffer.held_bytes == 0


def test_a_partition_assigned_again_is_read_while_its_old_fetch_waits() -> None:
    """The response of the old fetch changes nothing for the new assignment."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster:
        settings: dict[str, Any] = {"fetch_max_wait_ms": 1_000}
        with consumer_of(cluster, **settings) as consumer:
            consumer.assign([P0])
            assert consumer.poll(0.3) == []  # a fetch waits in the broker
            consumer.unsubscribe()
            consumer.assign([P0])
            consumer.seek(P0, 0)
            fill(cluster, "orders", 5)
            assert [it.offset for it in poll_count(consumer, 5)] == [0, 1, 2, 3, 4]
            fill(cluster, "orders", 5)
            assert [it.offset for it in poll_count(consumer, 5)] == [5, 6, 7, 8, 9]


def test_a_restart_does_not_replace_a_newer_one() -> None:
    """A seek of another thread wins over a reset that was decided before it."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, consumer_of(cluster) as consumer:
        place = TopicPartition("t", 0)
        consumer.assign([place])
        engine = engine_of(consumer)
        partition = engine.parts.assignment.partitions[place]
        decided_on = partition.start.number
        consumer.seek(place, 7)
        assert not engine.selection.restart(partition, new_start(0), decided_on)
        assert consumer.position(place) == 7
