"""Texts that repeat what a client sent, and failures inside a handler."""

from typing import Any

import pytest

from kprod.broker.handlers.describe_cluster_handler import DescribeClusterHandler
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch

LONG = "x" * 32_767
ESCAPED = "\0" * 32_767
TOPIC = {"name": "new", "num_partitions": 1, "replication_factor": 1}
ASSIGNED = {"name": "new", "num_partitions": -1, "replication_factor": -1}
MANY = [{"partition_index": index, "broker_ids": [9_999]} for index in range(9_000)]
GAPS = [{"partition_index": 2 * index, "broker_ids": [0]} for index in range(9_000)]


def _setting(name: str, value: str) -> dict[str, Any]:
    return {"topics": [{**TOPIC, "configs": [{"name": name, "value": value}]}]}


REQUESTS: dict[str, tuple[ApiKey, int, dict[str, Any]]] = {
    "setting": (ApiKey.CREATE_TOPICS, 5, _setting(LONG, "1")),
    "escaped setting": (ApiKey.CREATE_TOPICS, 5, _setting(ESCAPED, "1")),
    "value": (ApiKey.CREATE_TOPICS, 5, _setting("retention.bytes", LONG)),
    "type": (ApiKey.CREATE_TOPICS, 5, _setting("message.timestamp.type", LONG)),
    "name": (ApiKey.CREATE_TOPICS, 5, {"topics": [{**TOPIC, "name": ESCAPED}]}),
    "brokers": (ApiKey.CREATE_TOPICS, 5, {"topics": [{**ASSIGNED, "assignments": MANY}]}),
    "partitions": (ApiKey.CREATE_TOPICS, 5, {"topics": [{**ASSIGNED, "assignments": GAPS}]}),
    "grown": (ApiKey.CREATE_PARTITIONS, 3, {"topics": [{"name": LONG, "count": 2}]}),
    "deleted": (ApiKey.DELETE_TOPICS, 5, {"topic_names": [LONG]}),
    "deleted, escaped": (ApiKey.DELETE_TOPICS, 5, {"topic_names": [ESCAPED]}),
    "produced": (
        ApiKey.PRODUCE,
        9,
        {
            "acks": 1,
            "timeout_ms": 1,
            "topic_data": [{"name": LONG, "partition_data": [{"index": 0, "records": batch()}]}],
        },
    ),
    "described": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {"resources": [{"resource_type": 4, "resource_name": LONG, "configuration_keys": None}]},
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_text_that_repeats_a_long_name_is_cut_off(name: str) -> None:
    """The response has a code and a text that fits, and nothing fails inside."""
    world = World()
    client = world.client()

    sent = client.send(*REQUESTS[name])
    answers = client.answers()

    assert sent in answers
    assert [0 < len(text) <= 1_000 for text in _texts(answers[sent])] == [True]
    assert not world.cluster.failures
    assert not client.stream.closed


def _texts(answer: Any) -> list[str]:
    if isinstance(answer, dict):
        own = [answer["error_message"]] if answer.get("error_message") else []
        return own + [text for value in answer.values() for text in _texts(value)]
    if isinstance(answer, list):
        return [text for value in answer for text in _texts(value)]
    return []


def test_a_handler_that_fails_inside_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """With UNKNOWN_SERVER_ERROR; the connection continues, and the failure is kept."""
    world = World()
    client = world.client()
    with monkeypatch.context() as patch:
        patch.setattr(DescribeClusterHandler, "handle", lambda *_: 1 // 0)
        sent = client.send(ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": 1})
    answers = client.answers()

    assert not client.stream.closed
    assert answers[sent]["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert client.produced(batch())["error_code"] == ErrorCode.NONE
    assert [type(it) for it in world.cluster.failures] == [ZeroDivisionError]


def test_a_failure_without_an_answer_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """With acks=0 there is no other way to tell."""
    world = World()
    client = world.client()
    monkeypatch.setattr("kprod.broker.replication.Partition.append", lambda *_, **__: 1 // 0)

    client.produce(batch(), acks=0)

    assert client.stream.closed
    assert client.stream.outgoing == b""
