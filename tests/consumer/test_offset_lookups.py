"""Queries of offsets against scripted brokers: resets, log ends, times, and epochs."""

from typing import Any
from uuid import UUID

import pytest

from kprod.errors import KprodError, KprodTimeout, LogTruncated
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.consumer.test_scripted import fetch_answer, log_of, once, ten_records, truncation_cluster
from tests.network.scripted import ALL_VERSIONS, PeerRequest, api_keys
from tests.network.scripted_logs import LogCluster, Rule

EPOCHS_KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def offsets_answer(**fields: Any) -> dict[str, Any]:
    """A ListOffsets response about partition 0."""
    return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, **fields}]}]}


def epochs_answer(**fields: Any) -> dict[str, Any]:
    """An OffsetForLeaderEpoch response about partition 0."""
    return {"topics": [{"topic": "orders", "partitions": [{"partition": 0, **fields}]}]}


def bodies(cluster: LogCluster, api_key: ApiKey) -> list[dict[str, Any]]:
    """The requests of a kind."""
    return [request.body for _, request in cluster.requests if request.api_key == api_key]


def counted(api_key: ApiKey, counts: list[int]) -> Rule:
    """Count the partitions of each request of a kind."""

    def rule(_cluster: LogCluster, _node_id: int, request: PeerRequest) -> None:
        if request.api_key == api_key:
            counts.append(sum(len(topic["partitions"]) for topic in request.body["topics"]))

    return rule


def test_a_position_that_is_set_asks_nothing() -> None:
    """With a seek before the first poll there is no reset."""
    cluster = LogCluster(ten_records())
    with scripted_consumer(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 4)
        assert scripted_poll(consumer, 1)[0].offset == 4
    assert cluster.count(ApiKey.LIST_OFFSETS) == 0


@pytest.mark.parametrize(
    ("policy", "timestamp", "offset"), [("earliest", -2, 3), ("latest", -1, 10)]
)
def test_a_reset_asks_for_its_end_of_the_log(policy: str, timestamp: int, offset: int) -> None:
    """Once, and reading begins there."""
    log = ten_records()
    log.start_offset = 3
    cluster = LogCluster(log)
    with scripted_consumer(cluster, auto_offset_reset=policy) as consumer:
        consumer.assign([P0])
        assert consumer.position(P0) == offset
    (body,) = bodies(cluster, ApiKey.LIST_OFFSETS)
    assert body["topics"][0]["partitions"][0]["timestamp"] == timestamp


@pytest.mark.parametrize(("level", "number"), [("read_uncommitted", 0), ("read_committed", 1)])
def test_a_query_has_the_isolation_level(level: str, number: int) -> None:
    """So that the end is the last stable offset, or the high watermark."""
    cluster = LogCluster(ten_records())
    with scripted_consumer(cluster, "orders", isolation_level=level) as consumer:
        scripted_poll(consumer, 1)
        assert consumer.end_offsets([P0]) == {P0: 10}
    assert {body["isolation_level"] for body in bodies(cluster, ApiKey.LIST_OFFSETS)} == {number}


@pytest.mark.parametrize("epoch", [-1, 3])
def test_a_reset_keeps_the_epoch_of_its_answer(epoch: int) -> None:
    """It is that of the last record read, as far as the broker is concerned."""
    cluster = LogCluster(ten_records())
    cluster.rules.append(once(ApiKey.LIST_OFFSETS, offsets_answer(offset=2, leader_epoch=epoch)))
    with scripted_consumer(cluster, "orders") as consumer:
        assert scripted_poll(consumer, 1)[0].offset == 2
    first = bodies(cluster, ApiKey.FETCH)[0]["topics"][0]["partitions"][0]
    assert (first["fetch_offset"], first["last_fetched_epoch"]) == (2, epoch)


def test_a_fetch_and_a_query_have_the_leader_s_epoch() -> None:
    """A broker can then say that it is another leader's."""
    cluster = LogCluster(ten_records())
    cluster.logs[0].epoch = 7
    with scripted_consumer(cluster, "orders") as consumer:
        scripted_poll(consumer, 1)
    for api_key in (ApiKey.LIST_OFFSETS, ApiKey.FETCH):
        entry = bodies(cluster, api_key)[0]["topics"][0]["partitions"][0]
        assert entry["current_leader_epoch"] == 7


@pytest.mark.parametrize("code", [3, 5, 6, 9, 13, 56, 74, 75, 78])
@pytest.mark.parametrize("way", ["reset", "end_offsets", "offsets_for_times"])
def test_a_retriable_code_of_a_query_is_survived(code: int, way: str) -> None:
    """It is asked again, after metadata where that may help."""
    cluster = LogCluster(ten_records())
    cluster.rules.append(once(ApiKey.LIST_OFFSETS, offsets_answer(error_code=code)))
    with scripted_consumer(cluster) as consumer:
        if way == "reset":
            consumer.assign([P0])
            assert scripted_poll(consumer, 1)[0].offset == 0
        elif way == "end_offsets":
            assert consumer.end_offsets([P0]) == {P0: 10}
        else:
            found = consumer.offsets_for_times({P0: 5})[P0]
            assert found is not None
            assert found.offset == 10
    assert cluster.count(ApiKey.LIST_OFFSETS) == 2


@pytest.mark.parametrize("answer", ["close", "silence"])
def test_a_query_that_one_of_two_leaders_loses_is_made_again(answer: str) -> None:
    """The other's answer is kept."""
    cluster = LogCluster(log_of([b"a"]), log_of([b"b"], [b"c"], leader_id=2))
    cluster.rules.append(once(ApiKey.LIST_OFFSETS, answer))
    with scripted_consumer(cluster) as consumer:
        assert consumer.end_offsets([P0, P1]) == {P0: 1, P1: 2}
    assert cluster.count(ApiKey.LIST_OFFSETS) == 3


def test_log_ends_of_several_of_one_twice_and_of_none() -> None:
    """A leader gets one request for all its partitions; none at all costs no request."""
    cluster = LogCluster(log_of([b"a"]), log_of([b"b"], [b"c"]))
    counts: list[int] = []
    cluster.rules.append(counted(ApiKey.LIST_OFFSETS, counts))
    with scripted_consumer(cluster) as consumer:
        for ends in (consumer.beginning_offsets, consumer.end_offsets):
            assert ends([]) == {}
            assert ends([P0, P0]) == {P0: ends([P0])[P0]}
            assert set(ends([P0, P1])) == {P0, P1}
        assert consumer.beginning_offsets([P0, P1]) == {P0: 0, P1: 0}
        assert consumer.end_offsets([P0, P1]) == {P0: 1, P1: 2}
    assert counts == [1, 1, 2, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("timeout", [0, 1.5])
def test_a_query_without_an_answer_times_out(timeout: float) -> None:
    """The text names the partitions, the time and its argument; the consumer reads on."""
    cluster = LogCluster(ten_records())
    cluster.rules.append(once(ApiKey.LIST_OFFSETS, "silence"))
    with scripted_consumer(cluster) as consumer:
        with pytest.raises(KprodTimeout, match=rf"partition orders-0 .* {timeout:g} s \(timeout\)"):
            consumer.offsets_for_times({P0: 5}, timeout=timeout)
        consumer.assign([P0])
        assert len(scripted_poll(consumer, 10, seconds=90)) == 10


def test_a_query_about_an_unknown_topic_says_so() -> None:
    """Every call that waits for it names the brokers' error, since they do respond."""
    absent = TopicPartition("nowhere", 0)
    with scripted_consumer(LogCluster(ten_records())) as consumer:
        for ask in (consumer.end_offsets, consumer.beginning_offsets):
            with pytest.raises(KprodTimeout, match=r"UNKNOWN_TOPIC_OR_PARTITION.*'nowhere'"):
                ask([absent], timeout=1)
        consumer.assign([absent])
        with pytest.raises(KprodTimeout, match=r"position of .*UNKNOWN_TOPIC_OR_PARTITION"):
            consumer.position(absent, timeout=1)


def test_an_assignment_that_changes_during_a_reset() -> None:
    """The late response moves nothing, and the new partition is read."""
    cluster = LogCluster(ten_records(), ten_records())
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        loop = consumer._kprod.parts.loop  # type: ignore[union-attr]
        while not cluster.count(ApiKey.LIST_OFFSETS):
            loop.run_once(cluster.clock.now_ms())
        consumer.assign([P1])
        assert {it.partition for it in scripted_poll(consumer, 10)} == {1}
        with pytest.raises(KprodError, match="not assigned"):
            consumer.position(P0)


def test_a_seek_during_a_reset() -> None:
    """The seek decides."""
    cluster = LogCluster(ten_records())
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        loop = consumer._kprod.parts.loop  # type: ignore[union-attr]
        while not cluster.count(ApiKey.LIST_OFFSETS):
            loop.run_once(cluster.clock.now_ms())
        consumer.seek(P0, 6)
        assert [it.offset for it in scripted_poll(consumer, 4)] == [6, 7, 8, 9]


@pytest.mark.parametrize("sought", [None, 4])
def test_a_paused_partition_gets_a_position_and_is_not_fetched(sought: int | None) -> None:
    """By a reset, or by a seek; resumed, it is read from there."""
    cluster = LogCluster(ten_records())
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        consumer.pause(P0)
        if sought is not None:
            consumer.seek(P0, sought)
        assert consumer.poll(0.3) == []
        assert consumer.position(P0) == (sought or 0)
        assert cluster.count(ApiKey.FETCH) == 0
        consumer.resume(P0)
        assert scripted_poll(consumer, 1)[0].offset == (sought or 0)


@pytest.mark.parametrize(
    "fields", [{"end_offset": -1, "leader_epoch": 0}, {"end_offset": 5, "leader_epoch": -1}]
)
@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_an_epoch_that_the_leader_does_not_know(fields: dict[str, int], policy: str) -> None:
    """Nothing is known to be the same: the policy decides, or the application."""
    cluster = LogCluster(ten_records())
    told = {"topics": [{"topic": "orders", "partitions": [{"partition": 0, **fields}]}]}
    cluster.rules.append(once(ApiKey.OFFSET_FOR_LEADER_EPOCH, told))
    settings = {"metadata_max_age_ms": 1_000, "auto_offset_reset": policy}
    with scripted_consumer(cluster, **settings) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 0)
        assert len(scripted_poll(consumer, 10)) == 10
        cluster.logs[0].epoch = 1
        if policy == "none":
            with pytest.raises(LogTruncated, match="an offset that the leader does not know"):
                scripted_poll(consumer, 1)
            return
        assert scripted_poll(consumer, 1)[0].offset == 0


def test_a_seek_while_a_position_is_validated(caplog: pytest.LogCaptureFixture) -> None:
    """The response was about another position, and cuts nothing."""
    cluster = truncation_cluster(4)
    with scripted_consumer(cluster, "orders", metadata_max_age_ms=1_000) as consumer:
        assert len(scripted_poll(consumer, 10)) == 10
        cluster.logs[0].epoch = 1
        loop = consumer._kprod.parts.loop  # type: ignore[union-attr]
        while not cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH):
            loop.run_once(cluster.clock.now_ms())
        consumer.seek(P0, 8)
        assert scripted_poll(consumer, 1)[0].offset == 8
    assert not [it for it in caplog.records if "was cut" in it.getMessage()]


@pytest.mark.parametrize("code", [6, 74, 75])
def test_a_validation_that_a_broker_rejects_is_made_again(code: int) -> None:
    """Nothing is read meanwhile, and nothing twice."""
    cluster = truncation_cluster(10)
    entry = {"partition": 0, "error_code": code}
    cluster.rules.insert(
        0,
        once(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            {"topics": [{"topic": "orders", "partitions": [entry]}]},
        ),
    )
    with scripted_consumer(cluster, "orders", metadata_max_age_ms=1_000) as consumer:
        assert len(scripted_poll(consumer, 10)) == 10
        cluster.logs[0].epoch = 1
        assert scripted_poll(consumer, 1, seconds=3) == []
        cluster.logs[0].append(b"new")
        assert [it.offset for it in scripted_poll(consumer, 1)] == [10]
        assert cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) == 2


REJECTIONS: dict[int, dict[str, Any]] = {
    ApiKey.LIST_OFFSETS: offsets_answer(error_code=75),
    EPOCHS_KEY: epochs_answer(error_code=75),
    ApiKey.FETCH: fetch_answer(error_code=75),
}


class RemadeCluster(LogCluster):
    """A topic that has another id when it is made again; brokers that know no later epoch."""

    made = 1

    def usual_response(self, node_id: int, request: PeerRequest) -> dict[str, Any]:
        """Add the id, or reject the epoch."""
        if request.api_key == ApiKey.API_VERSIONS:  # later ones of Fetch would reject the id
            return {"api_keys": api_keys(ALL_VERSIONS | {ApiKey.FETCH: (4, 12)})}
        if request.api_key == ApiKey.METADATA:
            body = super().usual_response(node_id, request)
            for topic in body["topics"]:
                topic["topic_id"] = UUID(int=self.made)
            return body
        entry = request.body["topics"][0]["partitions"][0]
        if entry["current_leader_epoch"] > self.logs[0].epoch:
            return REJECTIONS[request.api_key]
        if request.api_key == EPOCHS_KEY:
            return epochs_answer(leader_epoch=0, end_offset=1)
        return super().usual_response(node_id, request)


@pytest.mark.parametrize(
    "api_key", [ApiKey.LIST_OFFSETS, EPOCHS_KEY, ApiKey.FETCH], ids=lambda key: key.name
)
def test_a_topic_made_again_is_asked_with_its_own_epoch(api_key: ApiKey) -> None:
    """Soon, and not when metadata is old: the topic before it had a higher epoch."""
    cluster = RemadeCluster(ten_records())
    cluster.logs[0].epoch = 1
    with scripted_consumer(cluster, "orders") as consumer:
        assert len(scripted_poll(consumer, 10)) == 10
        cluster.logs[0] = log_of([b"new"])
        cluster.made = 2
        count = cluster.count(api_key)
        if api_key == ApiKey.LIST_OFFSETS:
            assert consumer.end_offsets([P0], timeout=2) == {P0: 1}
        elif api_key == EPOCHS_KEY:
            consumer.seek(P0, 1, 0)
        consumer.poll(2)
    first, *_, last = bodies(cluster, api_key)[count:]
    asked = [body["topics"][0]["partitions"][0]["current_leader_epoch"] for body in (first, last)]
    assert asked == [1, 0]


def test_validations_are_grouped_by_leader() -> None:
    """One request for two partitions of a node, another for the other node's."""
    logs = [ten_records() for _ in range(3)]
    logs[2].leader_id = 2
    cluster = LogCluster(*logs)
    counts: list[int] = []
    cluster.rules.append(counted(ApiKey.OFFSET_FOR_LEADER_EPOCH, counts))

    def answer(_: LogCluster, _node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.OFFSET_FOR_LEADER_EPOCH:
            return None
        (topic,) = request.body["topics"]
        told = [
            {"partition": it["partition"], "leader_epoch": 0, "end_offset": 10}
            for it in topic["partitions"]
        ]
        return {"topics": [{"topic": "orders", "partitions": told}]}

    cluster.rules.append(answer)
    with scripted_consumer(cluster, "orders", metadata_max_age_ms=1_000) as consumer:
        assert len(scripted_poll(consumer, 30)) == 30
        for log in logs:
            log.epoch = 1
        consumer.poll(3)
    assert sorted(counts) == [1, 2]


@pytest.mark.parametrize(("epoch_end", "offset"), [(10, 6), (4, 4)])
def test_a_seek_with_an_epoch_is_validated(epoch_end: int, offset: int) -> None:
    """Before anything is fetched: the leader may have less than the application has read."""
    cluster = truncation_cluster(epoch_end)
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 6, 0)
        assert scripted_poll(consumer, 1)[0].offset == offset
    asked = [it.api_key for _, it in cluster.requests]
    assert asked.index(ApiKey.OFFSET_FOR_LEADER_EPOCH) < asked.index(ApiKey.FETCH)


def test_a_broker_too_old_to_validate() -> None:
    """The position counts as valid; each turn of leaders is survived."""
    cluster = LogCluster(ten_records())
    known = {key: versions for key, versions in ALL_VERSIONS.items() if key != EPOCHS_KEY}

    def answer(_: LogCluster, _node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        return {"api_keys": api_keys(known)} if request.api_key == ApiKey.API_VERSIONS else None

    cluster.rules.append(answer)
    with scripted_consumer(cluster, metadata_max_age_ms=1_000) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 2, 0)
        assert len(scripted_poll(consumer, 8)) == 8
        cluster.logs[0].epoch = 1
        assert scripted_poll(consumer, 1, seconds=3) == []
        cluster.logs[0].append(b"new")
        assert [it.offset for it in scripted_poll(consumer, 1)] == [10]
    assert cluster.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) == 0
