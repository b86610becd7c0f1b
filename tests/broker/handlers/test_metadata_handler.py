"""Metadata, and the APIs around it: versions, topics, coordinators, offsets."""

import pytest

from kprod.broker import EmbeddedConfig
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import TIMESTAMP_MS, World, batch


@pytest.mark.parametrize("version", range(14))
def test_every_version_is_answered(version: int) -> None:
    """All topics, in each version from 0."""
    world = World()
    wanted: list[object] | None = [] if version == 0 else None

    answer = world.client().ask(ApiKey.METADATA, version, {"topics": wanted})

    assert [topic["name"] for topic in answer["topics"]] == ["orders"]
    assert len(answer["brokers"]) == 3


def test_topics_are_made_on_demand() -> None:
    """Topics are created if cluster and request allow it."""
    client = World(config=EmbeddedConfig(describe_new_topics=True)).client()
    wanted = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    unwanted = {"topics": [{"name": "other"}], "allow_auto_topic_creation": False}

    made = client.ask(ApiKey.METADATA, 12, wanted)["topics"][0]
    rejected = client.ask(ApiKey.METADATA, 12, unwanted)["topics"][0]

    assert (made["error_code"], len(made["partitions"])) == (ErrorCode.NONE, 1)
    assert rejected["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(14))
def test_a_topic_made_on_demand_is_unknown_once(version: int) -> None:
    """The response that makes it has no partitions, as Kafka's; the next one describes it."""
    client = World().client()
    wanted = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}

    first, second = (client.ask(ApiKey.METADATA, version, wanted)["topics"][0] for _ in range(2))

    assert (first["error_code"], first["partitions"]) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert (second["error_code"], len(second["partitions"])) == (ErrorCode.NONE, 1)


def test_the_cluster_may_forbid_it() -> None:
    """With auto-creation off an unknown topic stays unknown."""
    client = World(config=EmbeddedConfig(auto_create_topics=False)).client()

    answer = client.ask(ApiKey.METADATA, 3, {"topics": [{"name": "new"}]})

    assert answer["topics"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250, "a/b", "a\n"])
@pytest.mark.parametrize("may_create", [False, True])
def test_illegal_names_are_rejected(name: str, may_create: bool) -> None:
    """They are not made and not merely unknown."""
    body = {"topics": [{"name": name}], "allow_auto_topic_creation": may_create}

    answer = World().client().ask(ApiKey.METADATA, 12, body)

    assert answer["topics"][0]["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_api_versions_is_answered_in_any_version() -> None:
    """An unknown version gets version 0, error 35 and the range to ask again with."""
    client = World().client()
    client.send_frame(b"\x00\x12\x00\x63\0\0\0\7\xff\xff\0")

    frame = bytes(client.stream.outgoing)

    assert frame[4:8] == (7).to_bytes(4)
    assert frame[8:] == b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\x04"


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [("kprod", "1.0", 0), ("", "1", 42), ("a b", "1", 42), ("-a", "1", 42), ("a", "1.", 42)],
)
def test_the_client_names_itself(name: str, version: str, code: int) -> None:
    """A malformed software name or version is INVALID_REQUEST."""
    body = {"client_software_name": name, "client_software_version": version}

    assert World().client().ask(ApiKey.API_VERSIONS, 3, body)["error_code"] == code


def test_produce_is_advertised_from_0() -> None:
    """Old librdkafka looks for it there."""
    answer = World().client().ask(ApiKey.API_VERSIONS, 0, {})

    ranges = {it["api_key"]: (it["min_version"], it["max_version"]) for it in answer["api_keys"]}
    assert ranges[ApiKey.PRODUCE] == (0, 13)
    assert ApiKey.API_VERSIONS in ranges


def test_producer_ids_never_repeat() -> None:
    """At any broker."""
    world = World()
    ids = [
        world.client(broker).ask(ApiKey.INIT_PRODUCER_ID, version, {"transactional_id": None})
        for broker in range(3)
        for version in range(6)
    ]

    assert len({answer["producer_id"] for answer in ids} - {-1}) == len(ids)


def test_a_deleted_topic_comes_back_with_another_id() -> None:
    """So that nobody takes the new one for the old."""
    world = World()
    client = world.client()

    def topic_id() -> object:
        return client.ask(ApiKey.METADATA, 12, {"topics": [{"name": "orders"}]})["topics"][0][
            "topic_id"
        ]

    before = topic_id()
    world.cluster.delete_topic("orders")

    assert before != topic_id()


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_found(version: int) -> None:
    """Earliest, latest, by time, in each version."""
    world = World()
    client = world.client()
    client.produced(batch(3))

    def offset(timestamp: int) -> tuple[int, int]:
        entry = {"partition_index": 0, "timestamp": timestamp}
        body = {"topics": [{"name": "orders", "partitions": [entry]}]}
        answer = client.ask(ApiKey.LIST_OFFSETS, version, body)["topics"][0]["partitions"][0]
        return answer["error_code"], answer["offset"]

    assert offset(-2) == (0, 0)
    assert offset(-1) == (0, 3)
    assert offset(TIMESTAMP_MS) == (0, 0)
    assert offset(TIMESTAMP_MS + 1) == (0, -1)
    assert offset(-3) == ((0, 0) if version >= 7 else (ErrorCode.UNSUPPORTED_VERSION, -1))
    assert offset(-9) == (ErrorCode.UNSUPPORTED_VERSION, -1)
