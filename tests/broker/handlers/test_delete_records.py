"""DeleteRecords: the start moves at once, and the response waits for followers."""

from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedConfig
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World, batch

BARE = {"internal.segment.bytes": "120", "retention.ms": "-1"}


def asked(client: Client, offset: int, *, topic: str = "orders", timeout_ms: int = 1_000) -> int:
    """Ask for the records below an offset to go; returns the correlation id."""
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    return client.send(ApiKey.DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": timeout_ms})


def told(answer: dict[str, Any]) -> tuple[int, int]:
    """The code and the low watermark."""
    (topic,) = answer["topics"]
    (part,) = topic["partitions"]
    return part["error_code"], part["low_watermark"]


def deleted(client: Client, offset: int, **fields: Any) -> tuple[int, int]:
    """Ask, and take the response, which comes at once."""
    correlation_id = asked(client, offset, **fields)
    return told(client.answers()[correlation_id])


def test_a_batch_that_straddles_the_start_is_given_whole() -> None:
    """Readers from below are out of range; the batch's bytes stay as they are."""
    world = World()
    client = world.client()
    client.produced(batch(3))

    assert deleted(client, 1) == (ErrorCode.NONE, 1)

    assert client.fetched(0)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(client.fetched(1)["records"]) == len(batch(3))
    assert world.cluster.describe("orders", 0).log_start_offset == 1
    assert deleted(client, 0) == (ErrorCode.NONE, 1)  # it never goes back


def test_the_response_waits_for_a_held_follower() -> None:
    """And has the lowest start of all replicas, when it has come."""
    world = World()
    client = world.client()
    client.produced(batch(3))
    world.cluster.set_follower_lag("orders", 0, 1, None)
    correlation_id = asked(client, 2, timeout_ms=10_000)
    assert client.answers() == {}

    world.cluster.catch_up("orders", 0, 1)
    world.step()

    assert told(client.answers()[correlation_id]) == (ErrorCode.NONE, 2)


def test_a_follower_that_stays_behind_times_it_out() -> None:
    """The log begins later all the same."""
    world = World()
    client = world.client()
    client.produced(batch(3))
    world.cluster.set_follower_lag("orders", 0, 1, None)
    correlation_id = asked(client, 2, timeout_ms=500)

    world.advance(500)

    assert told(client.answers()[correlation_id])[0] == ErrorCode.REQUEST_TIMED_OUT
    assert world.cluster.describe("orders", 0).log_start_offset == 2


def test_a_leader_that_moves_ends_the_wait() -> None:
    """The client asks the new one."""
    world = World()
    client = world.client()
    client.produced(batch(3))
    world.cluster.set_follower_lag("orders", 0, 1, None)
    correlation_id = asked(client, 2, timeout_ms=10_000)

    world.cluster.move_leader("orders", 0, to=2)
    world.step()

    assert told(client.answers()[correlation_id])[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_stopped_broker_is_not_waited_for() -> None:
    """It copies the start when it is back."""
    world = World()
    client = world.client()
    client.produced(batch(3))
    world.cluster.stop_broker(1)

    assert deleted(client, 2) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_rejected(name: str) -> None:
    """Their records are the coordinators'."""
    client = World().client()

    assert deleted(client, 0, topic=name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_segments_go_by_retention_under_both_policies(tmp_path: Path) -> None:
    """`compact,delete`, then `compact` alone, which deletes no more (KAFKA-12177, 7400)."""
    world = World(data_dir=tmp_path, config=EmbeddedConfig(retention_check_interval_ms=1_000))
    settings = {**BARE, "cleanup.policy": "compact,delete"}
    world.cluster.create_topic("both", 1, settings=settings)
    client = world.client()
    for _ in range(4):
        client.produced(batch(3), topic="both")
    assert deleted(client, 7, topic="both") == (ErrorCode.NONE, 7)
    assert len(list(tmp_path.glob("both-0/*.log"))) == 4
    alter(client, "both", {**BARE, "cleanup.policy": "compact"})
    assert deleted(client, 8, topic="both")[0] == ErrorCode.POLICY_VIOLATION

    world.advance(1_000)

    assert len(list(tmp_path.glob("both-0/*.log"))) == 2
    world.cluster.close()
    world = World(data_dir=tmp_path)
    assert world.cluster.describe("both", 0).log_start_offset == 7
    world.cluster.close()


def alter(client: Client, name: str, settings: dict[str, str]) -> None:
    """Replace a topic's settings."""
    configs = [{"name": setting, "value": value} for setting, value in settings.items()]
    resource = {"resource_type": 2, "resource_name": name, "configs": configs}
    (answer,) = client.ask(ApiKey.ALTER_CONFIGS, 2, {"resources": [resource]})["responses"]
    assert answer["error_code"] == ErrorCode.NONE


def test_a_deleted_start_outlives_a_crash(tmp_path: Path) -> None:
    """Once its checkpoint was written, a minute later at most."""
    world = World(data_dir=tmp_path)
    client = world.client()
    client.produced(batch(3))
    deleted(client, 2)
    world.advance(61_000)
    world.cluster.kill()

    world = World(data_dir=tmp_path)
    assert world.cluster.describe("orders", 0).log_start_offset == 2
    world.cluster.close()
