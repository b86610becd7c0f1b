"""Racks: a reader that tells its own is sent to a replica there, which serves what it has."""

from typing import Any

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch, part

RACKS = ("a", "b", "b")
LEADER, NEAR, OTHER = 0, 1, 2
NOBODY = -1


def world_of(*racks: str) -> World:
    """Three brokers, and three records of which all have copies."""
    world = World(config=EmbeddedConfig(racks=racks))
    assert world.client(LEADER).produced(batch(3))["error_code"] == 0
    return world


def preferred(world: World, **options: Any) -> int:
    """The replica that the leader names for the first record."""
    answer = world.client(LEADER).fetched(0, **options)
    assert answer["error_code"] == 0
    assert bool(answer["records"]) == (answer["preferred_read_replica"] == NOBODY)
    named: int = answer["preferred_read_replica"]
    return named


def test_the_replica_of_a_reader_s_rack_is_named() -> None:
    """At once and without records, though there are some; other readers get them."""
    world = world_of(*RACKS)
    assert preferred(world, rack="b", max_wait_ms=10_000) in {NEAR, OTHER}
    assert preferred(world, rack="a") == NOBODY
    assert preferred(world, rack="c") == NOBODY
    assert preferred(world) == NOBODY


def test_the_replica_furthest_ahead_is_named() -> None:
    """The furthest of the replicas in sync."""
    world = world_of(*RACKS)
    world.cluster.set_follower_lag("orders", 0, NEAR, None)
    world.client(LEADER).produce(batch(1))
    assert preferred(world, rack="b") == OTHER
    world.cluster.set_follower_lag("orders", 0, OTHER, None)
    world.cluster.catch_up("orders", 0, NEAR)
    world.client(LEADER).produce(batch(1))
    world.cluster.catch_up("orders", 0, NEAR)
    assert preferred(world, rack="b") == NEAR


def test_a_broker_that_is_down_is_not_named() -> None:
    """The other one of its rack is, then none."""
    world = world_of(*RACKS)
    world.cluster.stop_broker(NEAR)
    assert preferred(world, rack="b") == OTHER
    world.cluster.stop_broker(OTHER)
    assert preferred(world, rack="b") == NOBODY


def test_without_racks_only_the_leader_serves() -> None:
    """As a Kafka whose selector is not set."""
    world = world_of()
    assert preferred(world, rack="b") == NOBODY
    code = world.client(NEAR).fetched(0, rack="b")["error_code"]
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_old_readers_are_served_by_the_leader() -> None:
    """Versions below 11 have no word for another replica."""
    world = world_of(*RACKS)
    assert world.client(LEADER).fetched(0, version=10)["records"]
    code = world.client(NEAR).fetched(0, version=10)["error_code"]
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_serves_what_it_has_copied() -> None:
    """And no more than the high watermark; behind that it says so."""
    world = world_of(*RACKS)
    world.cluster.set_follower_lag("orders", 0, NEAR, None)
    world.client(LEADER).produce(batch(2))
    follower = world.client(NEAR)
    whole = world.client(LEADER).fetched(0)["records"]
    assert follower.fetched(0, rack="b")["records"] == whole
    assert len(whole) == len(batch(3))
    at_end = follower.fetched(3, rack="b")
    assert (at_end["error_code"], at_end["records"]) == (0, b"")
    beyond = follower.fetched(4, rack="b")["error_code"]
    assert beyond == ErrorCode.OFFSET_NOT_AVAILABLE
    assert follower.fetched(9, rack="b")["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_waits_at_a_follower_and_ends_when_it_leads() -> None:
    """Records that are copied wake it; an election does, too."""
    world = world_of(*RACKS)
    follower = world.client(NEAR)
    waiting = follower.fetch(3, rack="b", max_wait_ms=10_000)
    world.step()
    assert waiting not in follower.answers()
    world.client(LEADER).produced(batch(1))
    assert part(follower.answers()[waiting])["records"]
    waiting = follower.fetch(4, rack="b", max_wait_ms=10_000)
    world.step()
    world.cluster.move_leader("orders", 0, to=NEAR)
    world.step()
    assert part(follower.answers()[waiting])["error_code"] == 0


def test_metadata_tells_the_racks() -> None:
    """From version 1 on."""
    world = world_of(*RACKS)
    answer = world.client().ask(ApiKey.METADATA, 12, {"topics": []})
    assert [node["rack"] for node in answer["brokers"]] == list(RACKS)


@pytest.mark.parametrize(
    ("racks", "text"),
    [
        (["a"], "racks names 1, and the number of brokers is 3"),
        ("abc", "sequence"),
        ([1, 2, 3], "sequence"),
    ],
)
def test_wrong_racks_are_rejected(racks: Any, text: str) -> None:
    """Before anything is bound."""
    with pytest.raises(ConfigError, match=text):
        EmbeddedCluster(brokers=3, racks=racks)
