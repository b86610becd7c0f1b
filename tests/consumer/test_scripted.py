"""The consumer against scripted brokers, in virtual time: faults, and their effects."""

from collections.abc import Sequence
from typing import Any

import pytest

from kprod.consumer.consumer_face import engine_of
from kprod.errors import CorruptRecord, KprodError, LogTruncated, NoOffset
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster, Rule
from tests.oracle.message_set import encode_message

P0 = TopicPartition("orders", 0)


def log_of(*batches: Sequence[bytes], leader_id: int = 1) -> Log:
    """A partition of such batches."""
    log = Log()
    log.leader_id = leader_id
    for values in batches:
        log.append(*values)
    return log


def read(cluster: LogCluster, count: int, **settings: Any) -> list[tuple[int, int, bytes | None]]:
    """Partition, offset and value of that number of records."""
    with scripted_consumer(cluster, cluster.topic, **settings) as consumer:
        records = scripted_poll(consumer, count)
    return [(record.partition, record.offset, record.value) for record in records]


def once(api_key: ApiKey, answer: dict[str, Any] | str, *, after: int = 0) -> Rule:
    """Answer one request of a kind, the one behind `after` others, in another way."""
    seen: list[int] = []

    def rule(
        _cluster: LogCluster, _node_id: int, request: PeerRequest
    ) -> dict[str, Any] | str | None:
        if request.api_key != api_key:
            return None
        seen.append(1)
        return answer if len(seen) == after + 1 else None

    return rule


def fetch_answer(**fields: Any) -> dict[str, Any]:
    """A response about partition 0."""
    partition = {"partition_index": 0, **fields}
    return {"responses": [{"topic": "orders", "partitions": [partition]}]}


def test_all_partitions_are_read_in_order() -> None:
    """Over two leaders."""
    cluster = LogCluster(
        log_of([b"a", b"b"], [b"c"]), log_of([b"d"], leader_id=2), log_of(leader_id=2)
    )
    assert sorted(read(cluster, 4)) == [(0, 0, b"a"), (0, 1, b"b"), (0, 2, b"c"), (1, 0, b"d")]


def test_gaps_and_markers_are_passed_over() -> None:
    """Compaction leaves holes, transactions leave markers; the end is reached all the same."""
    log = Log()
    log.append(b"a", b"c", offset_deltas=[0, 4])
    log.append(b"marker", base_offset=7, is_control=True, is_transactional=True)
    log.append(b"d", base_offset=9)
    log.append(b"marker", base_offset=10, is_control=True, is_transactional=True)
    with scripted_consumer(LogCluster(log), "orders") as consumer:
        records = scripted_poll(consumer, 3)
        consumer.poll(0.1)
        assert [record.offset for record in records] == [0, 4, 9]
        assert consumer.position(P0) == 11


def test_old_formats_are_read() -> None:
    """A log that began before record batches."""
    log = Log()
    log.entries.append((0, 0, encode_message((0, 5, b"k", b"old"), magic=1)))
    log.append(b"new")
    assert read(LogCluster(log), 2) == [(0, 0, b"old"), (0, 1, b"new")]


def test_small_fetches_reach_the_end() -> None:
    """A response ends in the middle of a batch, which the next one begins with."""
    cluster = LogCluster(log_of(*[[b"x" * 50, b"y"]] * 20))
    found = read(cluster, 40, max_partition_fetch_bytes=200)
    assert [offset for _, offset, _ in found] == list(range(40))
    assert cluster.count(ApiKey.FETCH) > 10


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH])
@pytest.mark.parametrize("answer", ["close", "silence"])
@pytest.mark.parametrize("after", [0, 1])
def test_a_lost_request_is_made_again(api_key: ApiKey, answer: str, after: int) -> None:
    """No record twice, none missing."""
    cluster = LogCluster(log_of(*[[b"a", b"b"]] * 5))
    cluster.rules.append(once(api_key, answer, after=after))
    with scripted_consumer(cluster, "orders", max_partition_fetch_bytes=100) as consumer:
        records = scripted_poll(consumer, 10, seconds=120)
    assert [record.offset for record in records] == list(range(10))


def test_a_new_leader_is_followed() -> None:
    """The old one rejects; metadata names the new one."""
    cluster = LogCluster(log_of([b"a"], [b"b"]))

    def move(moved: LogCluster, _node_id: int, request: PeerRequest) -> None:
        if request.api_key == ApiKey.FETCH:
            moved.logs[0].leader_id = 2

    cluster.rules.append(move)
    assert read(cluster, 2) == [(0, 0, b"a"), (0, 1, b"b")]
    fetched = {node for node, request in cluster.requests if request.api_key == ApiKey.FETCH}
    assert fetched == {1, 2}


def test_corrupt_records_are_an_error_with_the_place() -> None:
    """The records before are handed out; the error comes again until a seek."""
    log = log_of([b"a"], [b"b"], [b"c"])
    first, last, batch = log.entries[1]
    log.entries[1] = (first, last, batch[:-1] + b"\xff")
    with scripted_consumer(LogCluster(log), "orders") as consumer:
        assert [record.offset for record in scripted_poll(consumer, 1)] == [0]
        for _ in range(2):
            with pytest.raises(CorruptRecord, match=r"orders.*0.*1") as raised:
                scripted_poll(consumer, 1)
            assert (raised.value.topic, raised.value.partition) == ("orders", 0)
            assert raised.value.offset == 1
            assert consumer.position(P0) == 1
        consumer.seek(P0, 2)
        assert [record.offset for record in scripted_poll(consumer, 1)] == [2]


def test_a_corrupt_partition_does_not_keep_another_back() -> None:
    """Between two errors the others are read."""
    broken = log_of([b"a"])
    first, last, batch = broken.entries[0]
    broken.entries[0] = (first, last, batch[:-1] + b"\xff")
    cluster = LogCluster(broken, log_of(*[[b"x"]] * 5))
    found: list[int] = []
    errors = 0
    with scripted_consumer(cluster, "orders", max_poll_records=1) as consumer:
        for _ in range(100):
            try:
                found += [record.offset for record in consumer.poll(0.1)]
            except CorruptRecord:
                errors += 1
    assert found == list(range(5))
    assert errors > 5


@pytest.mark.parametrize("api_key", [ApiKey.LIST_OFFSETS, ApiKey.FETCH])
def test_a_rejection_that_time_cannot_mend(api_key: ApiKey) -> None:
    """Such as a missing right: raised once, and the partition is read when it is granted."""
    cluster = LogCluster(log_of([b"a"]))
    partitions = [{"partition_index": 0, "error_code": 29}]
    answer = (
        fetch_answer(error_code=29)
        if api_key == ApiKey.FETCH
        else {"topics": [{"name": "orders", "partitions": partitions}]}
    )
    cluster.rules.append(once(api_key, answer))
    with scripted_consumer(cluster, "orders") as consumer:
        with pytest.raises(KprodError, match="TOPIC_AUTHORIZATION_FAILED"):
            scripted_poll(consumer, 1)
        assert [record.value for record in consumer.poll(5)] == [b"a"]


@pytest.mark.parametrize(
    "code",
    [-1, 2, 3, 5, 6, 9, 13, 56, 74, 75, 78, 100, 103, 32_000],
    ids=lambda code: f"code{code}",
)
def test_any_code_of_a_fetch_is_survived(code: int) -> None:
    """Retriable errors are retried, others are raised; then the records arrive."""
    cluster = LogCluster(log_of([b"a"], [b"b"]))
    cluster.rules.append(once(ApiKey.FETCH, fetch_answer(error_code=code)))
    with scripted_consumer(cluster, "orders") as consumer:
        found: list[Any] = []
        for _ in range(100):
            try:
                found += consumer.poll(0.1)
            except KprodError as error:
                assert "orders" in str(error)  # noqa: PT017 - it may be raised, or not
    assert [record.offset for record in found] == [0, 1]


def test_an_old_answer_is_dropped_after_a_seek() -> None:
    """The fetch was out when the position changed."""
    cluster = LogCluster(log_of(*[[b"%d" % number] for number in range(10)]))
    with scripted_consumer(cluster, "orders", max_partition_fetch_bytes=80) as consumer:
        scripted_poll(consumer, 1)
        for offset in (7, 2, 9, 0):
            consumer.seek(P0, offset)
            assert scripted_poll(consumer, 1)[0].offset == offset


@pytest.mark.slow
def test_answers_for_others_change_nothing() -> None:
    """Topics and partitions that nobody asked for, and the same one twice."""
    cluster = LogCluster(log_of([b"a"]))
    batch = cluster.logs[0].entries[0][2]
    stranger = [
        {"topic": "other", "partitions": [{"partition_index": 0, "records": batch}]},
        {
            "topic": "orders",
            "partitions": [
                {"partition_index": 7, "records": batch},
                {"partition_index": 0, "records": batch, "high_watermark": 1},
                {"partition_index": 0, "records": batch, "high_watermark": 1},
            ],
        },
    ]
    cluster.logs.append(log_of())
    cluster.logs.append(log_of())
    cluster.logs.append(log_of())
    cluster.rules.append(once(ApiKey.FETCH, {"responses": stranger}))
    assert read(cluster, 2, max_poll_records=5) == [(0, 0, b"a")]


def test_batches_below_the_position_are_no_progress() -> None:
    """A broker that returns old batches for ever causes an error, not a loop."""
    cluster = LogCluster(log_of([b"a"], [b"b"]))
    old = cluster.logs[0].entries[0][2]
    cluster.rules.append(
        lambda _cluster, _node, request: (
            fetch_answer(records=old) if request.api_key == ApiKey.FETCH else None
        )
    )
    with scripted_consumer(cluster, "orders") as consumer:
        assert scripted_poll(consumer, 1)[0].offset == 0
        with pytest.raises(CorruptRecord, match="3 responses in a row") as raised:
            scripted_poll(consumer, 1)
        assert raised.value.offset == 1
        assert cluster.count(ApiKey.FETCH) < 1_000


def test_a_part_of_a_batch_alone_is_an_error() -> None:
    """The broker must send the first batch completely."""
    cluster = LogCluster(log_of([b"a"]))
    cut = cluster.logs[0].entries[0][2][:-1]
    cluster.rules.append(
        lambda _cluster, _node, request: (
            fetch_answer(records=cut) if request.api_key == ApiKey.FETCH else None
        )
    )
    with (
        scripted_consumer(cluster, "orders") as consumer,
        pytest.raises(CorruptRecord, match="offset 0: 3 responses"),
    ):
        scripted_poll(consumer, 1)


@pytest.mark.parametrize("delta", [2**31 - 1, -1, -(2**31)])
def test_a_batch_whose_end_lies_is_an_error(delta: int) -> None:
    """No records are skipped silently, and nothing is fetched from an impossible offset."""
    log = log_of([b"a"], [b"b"])
    first, last, batch = log.entries[0]
    lying = batch[:23] + delta.to_bytes(4, "big", signed=True) + batch[27:]
    log.entries[0] = (first, last, lying)
    with (
        scripted_consumer(LogCluster(log), "orders") as consumer,
        pytest.raises(CorruptRecord, match="orders"),
    ):
        scripted_poll(consumer, 2)


def ten_records() -> Log:
    """A log that knows its epochs."""
    log = Log()
    for number in range(10):
        log.append(b"%d" % number, partition_leader_epoch=0)
    return log


def truncation_cluster(epoch_end: int) -> LogCluster:
    """A log of ten records whose leader changes after five, and then knows less."""
    cluster = LogCluster(ten_records())

    def answer(_cluster: LogCluster, _node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.OFFSET_FOR_LEADER_EPOCH:
            return None
        partition = {"partition": 0, "leader_epoch": 0, "end_offset": epoch_end}
        return {"topics": [{"topic": "orders", "partitions": [partition]}]}

    cluster.rules.append(answer)
    return cluster


def test_a_log_that_was_cut_is_read_again_from_there(caplog: pytest.LogCaptureFixture) -> None:
    """One line says so, and it is counted."""
    cluster = truncation_cluster(4)
    with scripted_consumer(cluster, "orders", metadata_max_age_ms=1_000) as consumer:
        assert len(scripted_poll(consumer, 10)) == 10
        cluster.logs[0].epoch = 1
        records = scripted_poll(consumer, 1)
        assert records[0].offset == 4
        count = consumer.metrics()["consumer-fetch-manager-metrics"]["truncation-total"]
        assert count == 1
    (line,) = [it.getMessage() for it in caplog.records if "was cut" in it.getMessage()]
    assert "up to offset 10" in line
    assert "up to 4" in line


def test_a_log_that_was_cut_is_an_error_without_a_policy() -> None:
    """With both offsets; a seek continues."""
    cluster = truncation_cluster(4)
    with scripted_consumer(
        cluster, metadata_max_age_ms=1_000, auto_offset_reset="none"
    ) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 0)
        assert len(scripted_poll(consumer, 10)) == 10
        cluster.logs[0].epoch = 1
        with pytest.raises(LogTruncated, match="read up to offset 10") as raised:
            scripted_poll(consumer, 1)
        assert (raised.value.offset, raised.value.end_offset) == (10, 4)
        consumer.seek(P0, 4)
        assert scripted_poll(consumer, 1)[0].offset == 4


def test_a_log_that_was_cut_is_an_error_also_after_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal handler's exception comes when the position is gone and nobody knows the reason."""
    cluster = truncation_cluster(4)
    with scripted_consumer(
        cluster, metadata_max_age_ms=1_000, auto_offset_reset="none"
    ) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 0)
        assert len(scripted_poll(consumer, 10)) == 10
        faults = engine_of(consumer).faults
        restart = faults._restart

        def interrupted(*given: Any) -> bool:
            monkeypatch.undo()
            restart(*given)
            raise KeyboardInterrupt

        monkeypatch.setattr(faults, "_restart", interrupted)
        cluster.logs[0].epoch = 1
        with pytest.raises(KeyboardInterrupt):
            scripted_poll(consumer, 1)
        with pytest.raises(LogTruncated, match="read up to offset 10") as raised:
            scripted_poll(consumer, 1)
        assert (raised.value.offset, raised.value.end_offset) == (10, 4)
        assert faults._untold is None  # its traceback holds the caller's frames
        with pytest.raises(NoOffset):
            scripted_poll(consumer, 1)


def test_a_log_that_is_whole_after_an_election_goes_on() -> None:
    """Nothing is read twice."""
    cluster = truncation_cluster(10)
    with scripted_consumer(cluster, "orders", metadata_max_age_ms=1_000) as consumer:
        assert len(scripted_poll(consumer, 10)) == 10
        cluster.logs[0].epoch = 1
        assert scripted_poll(consumer, 1, seconds=3) == []
        cluster.logs[0].append(b"new")
        assert [record.offset for record in scripted_poll(consumer, 1)] == [10]
        assert cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) == 1


def test_a_diverging_epoch_of_a_fetch_counts_as_a_cut() -> None:
    """A leader may say so with a fetch (KIP-595)."""
    cluster = truncation_cluster(6)
    with scripted_consumer(cluster, "orders") as consumer:
        assert len(scripted_poll(consumer, 10)) == 10
        diverging = {"epoch": 0, "end_offset": 6}
        cluster.rules.append(once(ApiKey.FETCH, fetch_answer(diverging_epoch=diverging)))
        assert scripted_poll(consumer, 1)[0].offset == 6


def test_resets_that_are_overtaken_do_not_slow_the_fetching() -> None:
    """A seek may come while an offset that is not in the log waits to be handled."""
    cluster = LogCluster(log_of(*[[b"%d" % number] for number in range(10)]))
    with scripted_consumer(cluster, "orders", max_partition_fetch_bytes=80) as consumer:
        scripted_poll(consumer, 1)
        for _ in range(5):
            consumer.seek(P0, 500)
            consumer.pause(P0)
            for _ in range(5):
                consumer.poll(0.1)
            consumer.resume(P0)
            consumer.seek(P0, 500)
            consumer._kprod.parts.loop.run_once(cluster.clock.now_ms())  # type: ignore[union-attr]
            consumer.seek(P0, 0)
        assert [record.offset for record in scripted_poll(consumer, 10)] == list(range(10))
