"""Valid contents of a Metadata response, and rejected ones."""

import random
from typing import Any

import pytest

from kprod.cluster.metadata_response import (
    OTHER_BROKERS_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    decode_answer,
    read_response,
)
from kprod.errors import BrokerError, RemoteProtocolError
from kprod.model import Node
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import ErrorCode
from tests.cluster.bodies import VERSION, metadata_response, metadata_response_body, topic_entry


def test_nodes_and_topics_are_read() -> None:
    """Everything a snapshot needs is taken over."""
    answer = read_response(metadata_response(topic_entry("orders", [(1, 5), (2, 7)], topic_id=9)))

    assert answer.nodes[2] == Node(2, "host-2", 9002)
    assert answer.topics["orders"].leader_ids == (1, 2)
    assert answer.topics["orders"].leader_epochs == (5, 7)
    assert answer.topics["orders"].topic_id.int == 9
    assert answer.topics["orders"].partition(1).replicas == (1, 2, 3)
    assert (answer.cluster_id, answer.controller_id, dict(answer.errors)) == ("cluster", 1, {})


def test_equal_replica_lists_are_one_object() -> None:
    """Ten thousand partitions on three brokers have a handful of replica lists."""
    answer = read_response(metadata_response(topic_entry("orders", [(1, 0)] * 100)))

    assert len({id(replicas) for replicas in answer.topics["orders"].replicas}) == 1


def test_partitions_are_put_in_order() -> None:
    """Brokers do not promise an order."""
    entry = topic_entry("orders", [(1, 0), (2, 0), (3, 0)])
    entry["partitions"].reverse()

    assert read_response(metadata_response(entry)).topics["orders"].leader_ids == (1, 2, 3)


def test_a_missing_partition_has_no_leader() -> None:
    """A hole keeps the number of partitions, by which keys are spread."""
    entry = topic_entry("orders", [(1, 0), (2, 0), (3, 0)])
    del entry["partitions"][1]

    assert read_response(metadata_response(entry)).topics["orders"].leader_ids == (1, -1, 3)


@pytest.mark.parametrize("index", [-1, 0, 1_009, PARTITIONS_PER_TOPIC_MAX, 2**31 - 1])
def test_a_topic_with_an_absurd_partition_is_asked_about_again(index: int) -> None:
    """Negative, repeated or far above the others: the topic's error; other topics are used."""
    entry = topic_entry("orders", [(1, 0), (2, 0)])
    entry["partitions"][1]["partition_index"] = index

    answer = read_response(metadata_response(entry, topic_entry("sound", [(1, 0)])))

    assert set(answer.topics) == {"sound"}
    assert str(index) in str(answer.errors["orders"])
    assert answer.errors["orders"].retriable


def test_a_hole_is_legal_up_to_four_times_the_partitions_and_a_thousand() -> None:
    """The highest number that two partitions allow is 4 × 2 + 1,000."""
    entry = topic_entry("orders", [(1, 0), (2, 0)])
    entry["partitions"][1]["partition_index"] = 1_008

    topic = read_response(metadata_response(entry)).topics["orders"]

    assert topic.partition_count == 1_009
    assert (topic.leader_ids[0], topic.leader_ids[1], topic.leader_ids[1_008]) == (1, -1, 2)


@pytest.mark.parametrize("wrong", [{"leader_id": -2}, {"leader_epoch": -(2**31)}])
def test_a_topic_with_an_absurd_leader_is_asked_about_again(wrong: dict[str, int]) -> None:
    """Minus one is no leader, or an unknown epoch; anything below has no meaning."""
    entry = topic_entry("orders", [(1, 0), (2, 0)])
    entry["partitions"][1].update(wrong)

    answer = read_response(metadata_response(entry))

    assert answer.errors["orders"].retriable
    assert not answer.topics


def test_only_topics_that_were_asked_for_are_read() -> None:
    """The others are stepped over, whatever is in them."""
    codec = response_codec(ApiKey.METADATA, VERSION)
    body = metadata_response(
        topic_entry("other", [(1, 0)] * 500), topic_entry("orders", [(2, 7)], topic_id=9)
    )

    answer = decode_answer(codec, codec.encode(body), topics={"orders"})

    assert set(answer.topics) == {"orders"}
    assert answer.topics["orders"].leader_epochs == (7,)
    assert answer.topics["orders"].partition(0).replicas == (1, 2, 3)
    assert answer.nodes[2] == Node(2, "host-2", 9002)


def test_of_many_brokers_the_leaders_and_a_few_others_are_read() -> None:
    """Among 500 brokers the topic's leader, that of a topic known before, the controller."""
    codec = response_codec(ApiKey.METADATA, VERSION)
    body = metadata_response(
        topic_entry("orders", [(400, 0)]), nodes=range(500, 0, -1), controller_id=450
    )

    answer = decode_answer(codec, codec.encode(body), topics={"orders"}, leaders={300})

    assert set(answer.nodes) == {*range(1, 1 + OTHER_BROKERS_MAX), 300, 400, 450}


@pytest.mark.parametrize("version", range(4, 14))
def test_bytes_are_read_as_their_fields_in_every_version(version: int) -> None:
    """Reading a part of a response gives what reading the whole does."""
    codec = response_codec(ApiKey.METADATA, version)
    entry = topic_entry("orders", [(1, 5), (2, 7)])
    if version < 7:
        for partition in entry["partitions"]:
            del partition["leader_epoch"]
    encoded = codec.encode(metadata_response_body(entry, topic_entry("x", [], error_code=3)))

    whole = read_response(codec.decode(encoded))
    part = decode_answer(codec, encoded, topics={"orders", "x"})

    assert part.topics == whole.topics
    assert part.nodes == whole.nodes
    assert {name: error.code for name, error in part.errors.items()} == {"x": 3}
    assert part[3:5] == whole[3:5]


@pytest.mark.parametrize("version", [4, 5, 7, 9, 13])
@pytest.mark.parametrize(
    ("brokers", "first_id", "partitions", "replicas"),
    [(12, 1_001, 200, 3), (30, 1_001, 600, 3), (1_000, 50_001, 5_000, 5), (20, 0, 1_000, 10)],
)
def test_an_honest_cluster_is_within_the_bounds(
    brokers: int, first_id: int, partitions: int, replicas: int, version: int
) -> None:
    """Replica lists differ from partition to partition, and ids do not begin at 0."""
    rng = random.Random(7)
    node_ids = range(first_id, first_id + brokers)
    entry = topic_entry("orders", [(first_id, 0)] * partitions)
    for partition in entry["partitions"]:
        assigned = rng.sample(node_ids, replicas)
        partition["leader_id"] = assigned[0]
        partition["leader_epoch"] = rng.randrange(100_000)
        partition["replica_nodes"] = assigned
        partition["isr_nodes"] = rng.sample(assigned, replicas)
        if version < 7:
            del partition["leader_epoch"]
    codec = response_codec(ApiKey.METADATA, version)
    body = metadata_response_body(entry, nodes=node_ids)

    answer = decode_answer(codec, codec.encode(body), topics={"orders"})

    expected = tuple(tuple(item["replica_nodes"]) for item in entry["partitions"])
    assert answer.topics["orders"].replicas == expected


def test_a_topic_without_partitions_is_not_available_yet() -> None:
    """No error and no partition is no success."""
    answer = read_response(metadata_response(topic_entry("orders", [])))

    assert answer.topics == {}
    assert answer.errors["orders"].code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_topic_in_error_is_told_with_its_reason() -> None:
    """The code becomes an error that names the topic."""
    answer = read_response(metadata_response(topic_entry("orders", [], error_code=29)))

    assert answer.errors["orders"].name == "TOPIC_AUTHORIZATION_FAILED"
    assert "orders" in str(answer.errors["orders"])


def test_no_brokers_is_a_failure() -> None:
    """A broker that starts up may know no one, not even itself."""
    with pytest.raises(RemoteProtocolError, match="no broker"):
        read_response(metadata_response(nodes=()))


def test_an_error_for_the_whole_is_raised() -> None:
    """Version 13 can reject the question as such."""
    with pytest.raises(BrokerError) as raised:
        read_response(metadata_response(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))

    assert raised.value.code == ErrorCode.REBOOTSTRAP_REQUIRED


@pytest.mark.parametrize(
    "broker",
    [
        {"node_id": -1, "host": "a", "port": 9},
        {"node_id": 1, "host": "", "port": 9},
        {"node_id": 1, "host": "a", "port": 0},
        {"node_id": 1, "host": "a", "port": 65_536},
    ],
)
def test_an_impossible_broker_is_rejected(broker: dict[str, Any]) -> None:
    """Ids of bootstrap addresses, empty hosts and impossible ports are not taken over."""
    with pytest.raises(RemoteProtocolError, match="names broker"):
        read_response(metadata_response(brokers=[broker]))


def test_a_hostile_name_is_escaped() -> None:
    """A broker's text cannot forge a line of a log."""
    answer = read_response(metadata_response(topic_entry("a\nb\x1b[31m", [], error_code=3)))

    (error,) = answer.errors.values()
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)
