"""Settings as they are told, partitions that are placed, and the bounds of both."""

import re
from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.topic_settings import TOPIC_SETTINGS, settings_without_effect
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World

PAGE = Path(__file__).resolve().parents[3] / "docs" / "embedded_broker.md"
TOPIC, BROKER = 2, 4
NEW = {"name": "new", "num_partitions": 2, "replication_factor": 1}


def create(client: Client, *entries: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """Ask for topics; returns the response of each."""
    body = {"topics": list(entries), **fields}
    topics: list[dict[str, Any]] = client.ask(ApiKey.CREATE_TOPICS, 7, body)["topics"]
    return topics


def grow(client: Client, *entries: dict[str, Any]) -> list[int]:
    """Ask for more partitions; returns the code of each topic."""
    results = client.ask(ApiKey.CREATE_PARTITIONS, 3, {"topics": list(entries)})["results"]
    return [it["error_code"] for it in results]


def described(client: Client, kind: int, name: str) -> dict[str, Any]:
    """Ask for the settings of one resource."""
    entry = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [entry]})["results"]
    return dict(result)


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_answer_of_a_new_topic_has_its_settings(validate_only: bool) -> None:
    """All that Kafka has, its own among them, and the numbers."""
    configs = [{"name": "retention.ms", "value": "7"}, {"name": "retention.bytes", "value": "9"}]

    (topic,) = create(World().client(), {**NEW, "configs": configs}, validate_only=validate_only)

    told = {it["name"]: (it["value"], it["config_source"]) for it in topic["configs"]}
    assert list(told) == sorted(TOPIC_SETTINGS)
    assert (told["retention.ms"], told["retention.bytes"]) == (("7", 1), ("9", 1))
    assert told["cleanup.policy"] == ("delete", 5)
    assert (topic["num_partitions"], topic["replication_factor"]) == (2, 1)


def test_a_setting_of_the_cluster_is_told_as_the_broker_s() -> None:
    """So that a topic without settings of its own shows what holds for it."""
    world = World(config=EmbeddedConfig(retention_bytes=5))

    told = {it["name"]: it for it in described(world.client(), TOPIC, "orders")["configs"]}

    setting = told["retention.bytes"]
    assert (setting["value"], setting["config_source"], setting["config_type"]) == ("5", 4, 5)


def test_a_setting_that_is_null_is_rejected() -> None:
    """As Kafka 4.3.1 does."""
    (topic,) = create(
        World().client(), {**NEW, "configs": [{"name": "cleanup.policy", "value": None}]}
    )

    assert topic["error_code"] == ErrorCode.INVALID_CONFIG


def test_a_broker_tells_its_settings() -> None:
    """Those that exist here, under Kafka's names; another broker's are rejected."""
    client = World(config=EmbeddedConfig(connections_max_idle_ms=77)).client(1)

    own, other, text, empty = (described(client, BROKER, it) for it in ("1", "0", "x", ""))

    told = {it["name"]: it["value"] for it in own["configs"]}
    assert told["connections.max.idle.ms"] == "77"
    assert told["broker.id"] == "1"
    assert told["auto.create.topics.enable"] == "true"
    assert [other["error_code"], text["error_code"]] == [ErrorCode.INVALID_REQUEST] * 2
    assert (empty["error_code"], empty["configs"]) == (ErrorCode.NONE, [])


def test_new_partitions_are_placed_where_the_request_says() -> None:
    """An assignment for each new partition, and no other."""
    world = World()
    client = world.client()
    two = [{"broker_ids": [2, 1, 0]}, {"broker_ids": [1, 0, 2]}]

    wrong = [
        [{"broker_ids": [2, 1, 0]}],
        [{"broker_ids": [9, 1, 0]}] * 2,
        [{"broker_ids": [1, 1, 0]}] * 2,
        [{"broker_ids": []}] * 2,
        [{"broker_ids": [1]}] * 2,
        [],
    ]
    codes = [grow(client, {"name": "orders", "count": 3, "assignments": it})[0] for it in wrong]
    assert grow(client, {"name": "orders", "count": 3, "assignments": two}) == [ErrorCode.NONE]

    assert codes == [ErrorCode.INVALID_REPLICA_ASSIGNMENT] * len(wrong)
    assert [world.cluster.describe("orders", it).replicas for it in (1, 2)] == [
        (2, 1, 0),
        (1, 0, 2),
    ]


def test_a_topic_that_is_to_grow_twice_in_one_request_is_rejected() -> None:
    """It is answered once."""
    entry = {"name": "orders", "count": 3, "assignments": None}

    assert grow(World().client(), entry, entry) == [ErrorCode.INVALID_REQUEST]


def test_more_than_ten_thousand_additions_in_one_request_are_rejected() -> None:
    """For every topic of it, as in Kafka."""
    client = World().client()
    large = {"name": "a", "num_partitions": 6_000, "replication_factor": 1}

    codes = [it["error_code"] for it in create(client, large, {**large, "name": "b"}, NEW)]

    assert codes == [ErrorCode.POLICY_VIOLATION] * 3
    assert grow(client, {"name": "orders", "count": 10_002, "assignments": None}) == [
        ErrorCode.POLICY_VIOLATION
    ]


def test_topics_and_partitions_of_the_cluster_are_bounded() -> None:
    """By its settings, however they are asked for; deleted ones make room."""
    config = EmbeddedConfig(topics_max=2, partitions_max=4, default_partitions=2)
    world = World(topics={"a": 2}, config=config)
    client = world.client()
    two, three = ({**NEW, "num_partitions": count} for count in (2, 3))
    metadata = {"topics": [{"name": "c"}], "allow_auto_topic_creation": True}

    assert create(client, three)[0]["error_code"] == ErrorCode.POLICY_VIOLATION
    assert create(client, two)[0]["error_code"] == ErrorCode.NONE
    (topic,) = client.ask(ApiKey.METADATA, 12, metadata)["topics"]
    assert topic["error_code"] == ErrorCode.POLICY_VIOLATION
    assert grow(client, {"name": "new", "count": 3, "assignments": None}) == [
        ErrorCode.POLICY_VIOLATION
    ]
    world.cluster.delete_topic("a")
    assert grow(client, {"name": "new", "count": 4, "assignments": None}) == [ErrorCode.NONE]


def test_the_text_of_settings_is_bounded() -> None:
    """Values that mean nothing here are kept, but not without end."""
    client = World(config=EmbeddedConfig(topic_settings_bytes_max=1_000)).client()
    name = "leader.replication.throttled.replicas"
    configs = [{"name": name, "value": "x" * 600}]

    codes = [
        create(client, {**NEW, "name": name, "configs": configs})[0]["error_code"]
        for name in ("a", "b")
    ]

    assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def test_brokers_may_have_any_ids() -> None:
    """Clients find them under these, and tests name them so."""
    with EmbeddedCluster(brokers=[5, 1, 9], topics={"orders": 3}) as cluster:
        assert sorted(cluster.describe("orders", 0).replicas) == [1, 5, 9]
        cluster.stop_broker(5)
        assert cluster.describe("orders", 0).leader_id == 1
        assert len(cluster.bootstrap_servers.split(",")) == 3


@pytest.mark.parametrize("brokers", [[], [1, 1], [-1], [2**31], range(101)])
def test_ids_are_different_and_within_bounds(brokers: list[int]) -> None:
    """Otherwise there is no cluster."""
    with pytest.raises(ConfigError, match="brokers"):
        EmbeddedCluster(brokers=brokers)


def test_the_page_lists_the_settings_that_have_no_effect() -> None:
    """It says so until they have one."""
    text = PAGE.read_text()
    (paragraph,) = re.findall(
        r"^Accepted without effect: (.*?)\n\n", text, re.DOTALL | re.MULTILINE
    )

    assert re.findall(r"`([a-z0-9.]+)`", paragraph) == settings_without_effect()


def test_the_page_lists_the_bounds() -> None:
    """Each with its default."""
    config = EmbeddedConfig()
    text = PAGE.read_text()
    for name in (
        "frame_bytes_max",
        "decoded_request_bytes_max",
        "queued_max_request_bytes",
        "queued_max_response_bytes",
        "connections_max",
        "connections_max_idle_ms",
        "topics_max",
        "partitions_max",
        "topic_settings_bytes_max",
        "group_metadata_bytes_max",
        "log_bytes_max",
    ):
        assert re.search(rf"^\| `{name}`.*\| {getattr(config, name):,} \|", text, re.MULTILINE), (
            name
        )
