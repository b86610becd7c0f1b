"""Coordinators that move, stop, and start again on their directory."""

from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.clock import ManualClock
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Member, Script
from tests.broker.memory_network import MemoryNetwork
from tests.broker.world import TIMESTAMP_MS, Client, World


def test_a_moved_coordinator_knows_what_the_log_says() -> None:
    """Members, assignments, generation and offsets are as before."""
    script = Script(brokers=2)
    members = script.stable(2)
    assert members[1].commit(7) == ErrorCode.NONE
    before = script.world.cluster.group(GROUP)

    script.world.cluster.move_coordinator(GROUP, to=1 - before.coordinator)

    after = script.world.cluster.group(GROUP)
    assert after == before._replace(coordinator=1 - before.coordinator)
    assert members[0].heartbeat() == ErrorCode.NOT_COORDINATOR
    assert script.find() == after.coordinator


def test_the_newest_commit_counts_before_and_after_a_move() -> None:
    """And none of a generation that is over."""
    script = Script(brokers=2)
    (member,) = script.stable(1)
    assert [member.commit(offset) for offset in (7, 5)] == [ErrorCode.NONE] * 2
    past: dict[str, Any] = {"generation_id_or_member_epoch": member.generation - 1}
    assert member.commit(9, **past) == ErrorCode.ILLEGAL_GENERATION

    def committed() -> list[int]:
        return [it.offset for it in script.world.cluster.group(GROUP).offsets.values()]

    assert committed() == [5]
    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    assert committed() == [5]


def test_parked_requests_are_told_that_the_coordinator_moved() -> None:
    """Each is answered once."""
    script = Script(brokers=2)
    leader, follower = script.stable(2)
    leader.join()
    assert leader.answers() == []

    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    script.world.step()

    assert leader.take()["error_code"] == ErrorCode.NOT_COORDINATOR
    assert follower.answers() == []
    waiting = script.world.cluster._kprod.engine.state.groups.waiting
    assert (waiting.joins.delayed_count, waiting.syncs.delayed_count) == (0, 0)
    assert waiting.sessions.delayed_count == 2


def test_a_coordinator_that_takes_its_time_to_load() -> None:
    """`coordinator_loading_ms`: requests are told so, heartbeats are good."""
    script = Script(brokers=2, coordinator_loading_ms=500)
    script.world.advance(500)
    (member,) = script.stable(1)
    other = 1 - script.find()
    script.world.cluster.move_coordinator(GROUP, to=other)
    moved = Member(script.world.client(other), {})
    moved.member_id, moved.generation = member.member_id, member.generation

    assert moved.heartbeat() == ErrorCode.NONE
    assert moved.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    script.world.advance(499)
    assert moved.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    script.world.advance(1)
    assert moved.commit(1) == ErrorCode.NONE


@pytest.mark.parametrize("how", ["expire_member", "rebalance"])
def test_a_test_may_disturb_a_group(how: str) -> None:
    """The others hear of it by their next heartbeat."""
    script = Script()
    leader, follower = script.stable(2)
    if how == "rebalance":
        script.world.cluster.rebalance(GROUP)
    else:
        script.world.cluster.expire_member(GROUP, follower.member_id)
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert script.state == "PreparingRebalance"


def test_offsets_of_a_deleted_topic_are_gone() -> None:
    """At once, in every group."""
    script = Script()
    assert script.member().commit(5) == ErrorCode.NONE
    script.world.cluster.delete_topic("orders")
    assert script.world.cluster.group(GROUP).offsets == {}


def test_clients_cannot_write_to_the_offsets_topic() -> None:
    """INVALID_TOPIC_EXCEPTION, and Metadata says that it is internal."""
    script = Script()
    answer = script.world.client(0).produced(b"", topic="__consumer_offsets")
    assert answer["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    wish = {"topics": [{"name": "__consumer_offsets"}]}
    (topic,) = script.ask(ApiKey.METADATA, 9, **wish)["topics"]
    assert topic["is_internal"] is True


def test_a_restart_on_a_directory(tmp_path: Path) -> None:
    """A cluster that starts again has its groups, their members' sessions begin again."""
    clock = ManualClock(timestamp_ms=TIMESTAMP_MS)
    config = EmbeddedConfig(offsets_topic_num_partitions=1)

    def opened() -> tuple[EmbeddedCluster, MemoryNetwork]:
        network = MemoryNetwork()
        cluster = EmbeddedCluster(
            1, {"orders": 1}, config=config, clock=clock, network=network, data_dir=tmp_path
        )
        cluster.open()
        return cluster, network

    script = Script.__new__(Script)
    script.world = World.__new__(World)
    script.world.clock = clock
    script.world.cluster, script.world.network = opened()
    script.control = Client(script.world, script.world.network.connect(9_000))
    script.find()
    (member,) = script.stable(1)
    assert member.commit(7) == ErrorCode.NONE
    before = script.world.cluster.group(GROUP)
    script.world.cluster.close()

    script.world.cluster, script.world.network = opened()

    assert script.world.cluster.group(GROUP) == before
    again = script.member()
    again.member_id, again.generation = member.member_id, member.generation
    assert again.heartbeat() == ErrorCode.NONE
    script.world.advance(9_999)
    assert script.state == "Stable"
    script.world.advance(1)
    assert script.state == "Empty"
    script.world.cluster.close()
