"""Subscriptions by pattern in virtual time, with and without a group."""

import re
from typing import Any

import pytest

from kprod.consumer import topic_listing
from kprod.consumer.consumer import Consumer
from kprod.consumer.group.member_state import MemberState
from kprod.errors import UnsupportedVersion
from kprod.protocol.api import ApiKey
from tests.broker.world import batch
from tests.consumer.group.virtual_group import Listener, VirtualGroup, state_of

QUICK: dict[str, Any] = {"metadata_max_age_ms": 1_000, "auto_offset_reset": "latest"}
ALONE: dict[str, Any] = {**QUICK, "group_id": ""}
BOTH = pytest.mark.parametrize("settings", [QUICK, ALONE], ids=["group", "alone"])


def create(group: VirtualGroup, *names: str) -> None:
    """Create topics of one partition, each with three records."""
    topics = [
        {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        for name in names
    ]
    body = {"topics": topics, "timeout_ms": 1_000, "validate_only": False}
    group.ask(ApiKey.CREATE_TOPICS, 5, body)
    for name in names:
        group.world.client().produced(batch(3), topic=name)


def delete(group: VirtualGroup, *names: str) -> None:
    """Delete topics."""
    group.ask(ApiKey.DELETE_TOPICS, 5, {"topic_names": list(names), "timeout_ms": 1_000})


def topics_of(consumer: Consumer) -> list[str]:
    """The topics that the assigned partitions belong to."""
    return sorted({key.topic for key in consumer.assignment()})


@BOTH
@pytest.mark.parametrize("pattern", ["^or", re.compile(r"or"), "orders$"])
def test_topics_that_match_are_read(settings: dict[str, Any], pattern: Any) -> None:
    """A compiled pattern or its text, compared at the beginning of names."""
    with VirtualGroup(2) as group:
        create(group, "floor")
        one = group.member(**settings)
        one.subscribe(pattern=pattern)
        group.poll(one)
        assert topics_of(one) == ["orders"]
        assert len(one.assignment()) == 2
        assert one.subscription() == {"orders"}


@BOTH
def test_new_topics_are_read_from_their_beginning(settings: dict[str, Any]) -> None:
    """All their records are newer than the subscription, whatever `auto_offset_reset` says."""
    with VirtualGroup(1) as group:
        group.fill(3, 0)
        one = group.member(**settings)
        one.subscribe(pattern="orders")
        assert group.poll(one)[one] == []
        create(group, "orders-new", "other")
        records = group.poll(one)[one]
        assert [(it.topic, it.offset) for it in records] == [("orders-new", it) for it in range(3)]
        assert topics_of(one) == ["orders", "orders-new"]


@BOTH
def test_deleted_topics_are_read_no_more(settings: dict[str, Any]) -> None:
    """They are no error, and a topic of the same name is new."""
    with VirtualGroup(1) as group:
        create(group, "orders-old")
        one = group.member(**settings)
        one.subscribe(pattern="orders")
        group.poll(one)
        assert topics_of(one) == ["orders", "orders-old"]
        delete(group, "orders-old")
        group.poll(one, seconds=10)
        assert topics_of(one) == ["orders"]
        create(group, "orders-old")
        assert [it.offset for it in group.poll(one, seconds=10)[one]] == [0, 1, 2]


@BOTH
def test_a_pattern_without_topics_waits_for_them(settings: dict[str, Any]) -> None:
    """`poll` returns nothing meanwhile; a member is in the group, as Java's."""
    with VirtualGroup(1) as group:
        one = group.member(**settings)
        one.subscribe(pattern="bills")
        assert group.poll(one)[one] == []
        assert one.subscription() == set()
        if settings.get("group_id", True):
            assert state_of(one) is MemberState.STABLE
        create(group, "bills")
        assert len(group.poll(one)[one]) == 3


def test_internal_topics_are_left_out_unless_they_are_wanted() -> None:
    """As `exclude_internal_topics` says; the group's own topic is one."""
    with VirtualGroup(1) as group:
        one = group.member(**QUICK)
        group.member("orders", group_id="other")
        one.subscribe(pattern=".*")
        two = group.member(**QUICK, group_id="h", exclude_internal_topics=False)
        two.subscribe(pattern=".*")
        group.poll(one, two, seconds=10)
        assert topics_of(one) == ["orders"]
        assert topics_of(two) == ["__consumer_offsets", "orders"]


def test_each_member_reads_what_it_subscribes_to() -> None:
    """The leader assigns the topics of all members; new ones to those that match."""
    with VirtualGroup(2) as group:
        create(group, "bills")
        one, two = group.member("orders", **QUICK), group.member(**QUICK)
        two.subscribe(pattern="bills")
        group.poll(one, two, seconds=10)
        assert (topics_of(one), topics_of(two)) == (["orders"], ["bills"])
        create(group, "bills-new")
        records = group.poll(one, two, seconds=10)
        assert {it.topic for it in records[two]} == {"bills-new"}
        assert (topics_of(one), topics_of(two)) == (["orders"], ["bills", "bills-new"])


def test_a_pattern_replaces_names_and_names_a_pattern() -> None:
    """The member stays one, and its listener is told of what changes."""
    with VirtualGroup(1) as group:
        create(group, "bills")
        listener = Listener()
        one = group.member("orders", **QUICK)
        group.poll(one)
        one.subscribe(pattern="bills", listener=listener)
        group.poll(one)
        assert topics_of(one) == ["bills"]
        assert listener.calls == [("revoked", [0]), ("assigned", [0])]
        one.subscribe("orders")
        create(group, "bills-new")
        group.poll(one)
        assert topics_of(one) == ["orders"]
        one.subscribe(pattern="bills")
        group.poll(one)
        one.unsubscribe()
        assert one.subscription() == set()
        assert state_of(one) in {
            MemberState.LEFT,
            MemberState.STABLE,
        }
        group.pass_time(1)
        assert state_of(one) is MemberState.LEFT


def test_a_static_membership_by_pattern_is_left_by_close_alone() -> None:
    """A pattern that matches nothing is left, too."""
    with VirtualGroup(1) as group:
        one = group.member(**QUICK)
        one.subscribe(pattern="nothing")
        group.poll(one)
        one.close(5)
        found = group.ask(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]})["groups"][0]
        assert found["members"] == []


def test_a_broker_that_cannot_list_topics_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `poll`, until there is one that can."""
    with VirtualGroup(1) as group:
        one = group.member(**QUICK)
        with monkeypatch.context() as patched:
            patched.setattr(topic_listing, "_VERSIONS", (99, 99))
            one.subscribe(pattern="orders")
            with pytest.raises(UnsupportedVersion, match="no common version of METADATA"):
                group.poll(one)
        group.pass_time(2)
        group.poll(one)
        assert topics_of(one) == ["orders"]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"pattern": "orders-(["}, ValueError, r"'orders-\(\[' is not a regular expression"),
        ({"pattern": re.compile(rb"orders")}, TypeError, "text or re.compile"),
        ({"pattern": 7}, TypeError, "text or re.compile"),
        ({"topics": "orders", "pattern": "orders"}, ValueError, "topics or a pattern"),
        ({"topics": "^orders.*"}, ValueError, r"subscribe\(pattern="),
        ({"topics": re.compile(r"orders")}, TypeError, r"subscribe\(pattern="),
        ({}, ValueError, "topic or a pattern"),
    ],
)
def test_what_cannot_be_subscribed_is_told(
    arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    """The text names the pattern; the subscription remains."""
    with VirtualGroup(1) as group:
        one = group.member("orders")
        with pytest.raises(kind, match=text):
            one.subscribe(**arguments)
        assert one.subscription() == {"orders"}
