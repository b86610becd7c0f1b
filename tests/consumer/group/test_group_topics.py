"""A group's topics in virtual time: unknown ones, late metadata, numbers that cannot exist."""

from typing import Any

import pytest

from kprod.consumer.group.leading import check_assigned
from kprod.errors import RemoteProtocolError, UnknownTopic
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.consumer.group.virtual_group import VirtualGroup, numbers


def test_an_unknown_topic_delays_no_assignment() -> None:
    """The brokers have said that there is none; it is assigned once it exists."""
    with VirtualGroup(2, auto_create_topics=False) as group:
        one = group.member("orders", "bills", metadata_max_age_ms=1_000)
        began_ms = group.world.clock.now_ms()
        while not one.assignment():
            try:
                one.poll(0.05)
            except UnknownTopic:
                continue
        assert group.world.clock.now_ms() - began_ms < 4_000
        group.world.cluster.create_topic("bills", 2)
        for _ in range(400):
            one.poll(0.05)
            if len(one.assignment()) == 4:
                break
        assert {key.topic for key in one.assignment()} == {"orders", "bills"}


def test_partitions_that_are_added_after_an_early_assignment_are_read_from_their_beginning() -> (
    None
):
    """The member has had its assignment before it knew the topic, and the policy is latest."""
    settings: dict[str, Any] = {"auto_offset_reset": "latest", "metadata_max_age_ms": 1_000}
    with VirtualGroup(1) as group:
        leader = group.member("orders", **settings)
        group.poll(leader)
        group.world.cluster.faults.fail_next(
            ApiKey.METADATA, ErrorCode.LEADER_NOT_AVAILABLE, times=6
        )
        late = group.member("orders", **settings)
        group.poll(leader, late, seconds=10)
        counts = {"name": "orders", "count": 4, "assignments": None}
        body = {"topics": [counts], "timeout_ms": 1_000, "validate_only": False}
        group.ask(ApiKey.CREATE_PARTITIONS, 1, body)
        group.fill(3, 1, 2, 3)
        found = group.poll(leader, late, seconds=20)
        places = [(it.partition, it.offset) for each in found.values() for it in each]
        assert sorted(places) == [(number, at) for number in (1, 2, 3) for at in range(3)]
        assert numbers(late)


def test_an_assignment_of_a_negative_partition_is_an_error() -> None:
    """It names topic and number."""
    with pytest.raises(RemoteProtocolError, match="assigned partition -1 of topic 'orders'"):
        check_assigned([TopicPartition("orders", -1)])
    fine = [TopicPartition("orders", 2**31 - 1)]
    assert check_assigned(fine) == fine
