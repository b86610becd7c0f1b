"""Numbers that no broker can mean: the response counts as none, and the request goes again."""

from collections.abc import Mapping
from typing import Any

import pytest

from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster
from tests.producer.stage import Brokers, Stage

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize("throttle_time_ms", [0, 1])
@pytest.mark.parametrize(
    "wrong",
    [
        {"base_offset": INT64_MAX},
        {"base_offset": -2},
        {"base_offset": -(2**63)},
        {"base_offset": 5, "log_append_time_ms": -2},
    ],
)
def test_a_record_is_never_given_an_offset_or_a_time_that_there_cannot_be(
    wrong: Mapping[str, int], throttle_time_ms: int
) -> None:
    """Read with tables or without: the connection ends, and the batch is asked about again."""
    stage = Stage(linger_ms=5)
    futures = [stage.put(b"%d" % number) for number in range(2)]
    stage.run(10)
    held = stage.take()
    topic_id = held.request.body["topic_data"][0]["topic_id"]
    part = {"index": 0, "log_append_time_ms": -1, **wrong}
    responses = [{"topic_id": topic_id, "partition_responses": [part]}]
    held.reply({"responses": responses, "throttle_time_ms": throttle_time_ms})
    stage.run(1_000)

    assert [future.done() for future in futures] == [False, False]
    stage.answer(0, 41)
    assert [future.result(0).offset for future in futures] == [41, 42]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-(2**63), 0), (7, -1)])
def test_a_producer_id_that_no_broker_gives_is_asked_for_again(
    producer_id: int, epoch: int
) -> None:
    """Batches that carried it would not be idempotent at all."""

    def hold(brokers: Brokers) -> None:
        brokers.holds_ids = True

    stage = Stage(prepare=hold)
    stage.put(b"value")
    stage.run()
    stage.give_id(producer_id=producer_id, epoch=epoch)
    stage.run(1_000)
    stage.give_id(producer_id=8, epoch=0)
    stage.run()

    assert [held.batches[0].producer_id for held in stage.history] == [8]


@pytest.mark.parametrize("offset", [-1, -(2**63), INT64_MAX])
def test_a_consumer_asks_again_for_an_end_that_no_log_has(offset: int) -> None:
    """A log begins at 0 or above, and its last offset cannot be followed by another."""
    log = Log()
    log.append(b"value")
    cluster = LogCluster(log)
    wrong: list[int] = [offset]

    def answer(_: LogCluster, _node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.LIST_OFFSETS or not wrong:
            return None
        part = {"partition_index": 0, "offset": wrong.pop()}
        return {"topics": [{"name": "orders", "partitions": [part]}]}

    cluster.rules.append(answer)
    with scripted_consumer(cluster, "orders") as consumer:
        assert [record.value for record in scripted_poll(consumer, 1)] == [b"value"]
        wrong.append(offset)
        assert consumer.end_offsets([("orders", 0)]) == {("orders", 0): 1}
    assert cluster.count(ApiKey.LIST_OFFSETS) == 4


@pytest.mark.parametrize("throttle_time_ms", [-1, -(2**31), 2**31 - 1])
def test_a_throttle_time_that_cannot_be_meant_is_counted_within_its_limits(
    throttle_time_ms: int,
) -> None:
    """Five minutes at most, as it is kept; never below zero."""
    stage = Stage()
    stage.put(b"value")
    stage.run()
    held = stage.take()
    topic_id = held.request.body["topic_data"][0]["topic_id"]
    responses = [{"topic_id": topic_id, "partition_responses": [{"index": 0, "base_offset": 1}]}]
    held.reply({"responses": responses, "throttle_time_ms": throttle_time_ms})
    stage.run()

    metrics = stage.producer.metrics()["producer-metrics"]
    assert 0 <= metrics["produce-throttle-time-max"] <= 300_000
