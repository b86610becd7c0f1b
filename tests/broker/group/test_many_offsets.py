"""Deletions of more offsets than a batch of `__consumer_offsets` has room for."""

from typing import Any

import pytest

from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Script

PARTITIONS, BATCH_BYTES, AT_ONCE = 120, 1_000, 8
RETENTION_MS = 1_000


def filled(*, brokers: int = 1, version: int = 9, **settings: int) -> Script:
    """A group without members, with an offset for every partition of a topic."""
    script = Script(brokers=brokers, message_max_bytes=BATCH_BYTES, **settings)
    script.world.cluster.create_topic("wide", PARTITIONS)
    admin = script.member(broker=script.find())
    more: dict[str, Any] = {"retention_time_ms": RETENTION_MS} if version < 5 else {}
    for first in range(0, PARTITIONS, AT_ONCE):
        partitions = [
            {"partition_index": index, "committed_offset": index, "committed_metadata": ""}
            for index in range(first, first + AT_ONCE)
        ]
        topics = [{"name": "wide", "partitions": partitions}]
        admin.send_commit(0, version=version, topics=topics, **more)
        (topic,) = admin.take()["topics"]
        assert {it["error_code"] for it in topic["partitions"]} == {ErrorCode.NONE}
    assert len(script.world.cluster.group(GROUP).offsets) == PARTITIONS
    return script


def reloaded(script: Script) -> int:
    """How many offsets a replay finds."""
    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    return sum(len(view.offsets) for view in script.world.cluster.groups())


def test_a_group_is_deleted() -> None:
    """With all its offsets, and a replay finds neither."""
    script = filled(brokers=2)
    client = script.world.client(script.find())
    answer = client.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": [GROUP]})
    assert answer["results"] == [{"group_id": GROUP, "error_code": ErrorCode.NONE}]
    assert script.world.cluster.groups() == []
    assert reloaded(script) == 0


def test_a_topic_is_deleted() -> None:
    """Its offsets are gone, and a replay finds none."""
    script = filled(brokers=2)
    script.world.cluster.delete_topic("wide")
    script.world.step()
    assert script.world.cluster.group(GROUP).offsets == {}
    assert reloaded(script) == 0


def test_offsets_expire() -> None:
    """All of them, and the group."""
    script = filled(brokers=2, version=4, offsets_retention_check_interval_ms=100)
    script.world.advance(RETENTION_MS + 100)
    assert script.world.cluster.groups() == []
    assert reloaded(script) == 0


def test_offsets_are_deleted_by_a_client() -> None:
    """One response, when the last tombstone is replicated."""
    script = filled(brokers=2)
    leader = script.find()
    script.world.cluster.set_follower_lag(OFFSETS_TOPIC, 0, 1 - leader, None)
    partitions = [{"partition_index": index} for index in range(PARTITIONS)]
    client = script.world.client(leader)
    topics = [{"name": "wide", "partitions": partitions}]
    client.send(ApiKey.OFFSET_DELETE, 0, {"group_id": GROUP, "topics": topics})
    assert client.answers() == {}
    script.world.cluster.set_follower_lag(OFFSETS_TOPIC, 0, 1 - leader, 0)
    script.world.advance(1)
    (answer,) = client.answers().values()
    assert answer["error_code"] == ErrorCode.NONE
    assert script.world.cluster.group(GROUP).offsets == {}
    assert reloaded(script) == 0


@pytest.mark.parametrize("is_lowered_to", [100, 62])
def test_a_limit_that_no_tombstone_fits(is_lowered_to: int) -> None:
    """The deletion is rejected as a whole: the group and its offsets are as before."""
    script = filled()
    name = "max.message.bytes"
    configs = [{"name": name, "config_operation": 0, "value": str(is_lowered_to)}]
    resources = [{"resource_type": 2, "resource_name": OFFSETS_TOPIC, "configs": configs}]
    altered = script.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
    assert altered["responses"][0]["error_code"] == ErrorCode.NONE
    answer = script.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[GROUP])
    (result,) = answer["results"]
    fits = is_lowered_to == 100
    assert result["error_code"] == (ErrorCode.NONE if fits else ErrorCode.UNKNOWN_SERVER_ERROR)
    assert len(script.world.cluster.groups()) == (not fits)
    if not fits:
        assert len(script.world.cluster.group(GROUP).offsets) == PARTITIONS


def test_a_group_whose_first_commit_cannot_be_written() -> None:
    """It does not exist afterwards: a replay would not find it either."""
    script = Script(message_max_bytes=BATCH_BYTES)
    partitions = [
        {"partition_index": 0, "committed_offset": 5, "committed_metadata": "x" * BATCH_BYTES}
    ]
    topics = [{"name": "orders", "partitions": partitions}]
    admin = script.member()
    assert admin.commit(0, topics=topics) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert script.world.cluster.groups() == []
    assert admin.commit(5) == ErrorCode.NONE
    assert admin.commit(0, topics=topics) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [it.offset for it in script.world.cluster.group(GROUP).offsets.values()] == [5]
