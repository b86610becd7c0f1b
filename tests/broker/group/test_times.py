"""Every timeout of a group, on a manual clock: to the millisecond, and never early."""

import pytest

from kprod.broker.group.joining import NEW_MEMBER_JOIN_TIMEOUT_MS
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, REBALANCE_MS, SESSION_MS, Script, subscription

MINUTE_MS = 60_000


def members_of(script: Script) -> int:
    """How many members the group has."""
    return len(script.world.cluster.group(GROUP).members)


def pass_time(script: Script, delta_ms: int) -> None:
    """Let time pass one millisecond after another, so that no timer begins late."""
    for _ in range(delta_ms):
        script.world.clock.advance(1)
        script.world.cluster.step(script.world.clock.now_ms())
    script.world.step()


def test_session_timeout() -> None:
    """Counted from the last sign of life."""
    script = Script()
    (member,) = script.stable(1)
    script.world.advance(SESSION_MS - 1)
    assert member.heartbeat() == ErrorCode.NONE
    script.world.advance(SESSION_MS - 1)
    assert script.state == "Stable"
    script.world.advance(1)
    assert script.state == "Empty"


def test_a_commit_is_a_sign_of_life() -> None:
    """So is a sync."""
    script = Script()
    (member,) = script.stable(1)
    script.world.advance(SESSION_MS - 1)
    assert member.commit(1) == ErrorCode.NONE
    script.world.advance(SESSION_MS - 1)
    assert script.state == "Stable"
    script.world.advance(1)
    assert script.state == "Empty"


def test_an_id_that_is_never_used() -> None:
    """It holds a rebalance back for its session timeout, and no longer."""
    script = Script()
    (leader,) = script.stable(1)
    body = {
        "group_id": GROUP,
        "session_timeout_ms": 7_000,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("orders")}],
    }
    answer = script.ask(ApiKey.JOIN_GROUP, 9, **body)
    assert answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    leader.join()
    script.world.advance(6_999)
    assert leader.answers() == []
    script.world.advance(1)
    assert leader.take_join()["error_code"] == ErrorCode.NONE


def test_rebalance_timeout() -> None:
    """Members that do not join within it are removed."""
    script = Script()
    leader, follower = script.stable(2, session_timeout_ms=REBALANCE_MS * 2)
    leader.join()
    script.world.advance(REBALANCE_MS - 1)
    assert leader.answers() == []
    script.world.advance(1)
    assert len(leader.take_join()["members"]) == 1
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_timeout() -> None:
    """Members that do not sync within the rebalance timeout are removed."""
    script = Script()
    leader, follower = script.stable(2, session_timeout_ms=REBALANCE_MS * 2)
    leader.join()
    follower.join()
    leader.take_join()
    follower.take_join()
    follower.sync()
    script.world.advance(REBALANCE_MS - 1)
    assert follower.answers() == []
    assert script.state == "CompletingRebalance"
    script.world.advance(1)
    assert follower.take()["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert script.state == "PreparingRebalance"


def test_initial_delay_without_company() -> None:
    """One delay."""
    script = Script(group_initial_rebalance_delay_ms=3_000)
    member = script.member()
    member.join()
    script.world.advance(2_999)
    assert member.answers() == []
    script.world.advance(1)
    assert member.take_join()["generation_id"] == 1


def test_initial_delay_up_to_the_rebalance_timeout() -> None:
    """As long as members come it is given again, but no longer than the rebalance timeout."""
    script = Script(group_initial_rebalance_delay_ms=3_000)
    first = script.member(rebalance_timeout_ms=10_000)
    first.join()
    for _ in range(3):
        pass_time(script, 2_500)
        script.member(rebalance_timeout_ms=10_000).join()
    pass_time(script, 2_499)
    assert first.answers() == []
    script.world.advance(1)
    assert len(first.take_join()["members"]) == 4


def test_a_new_members_five_minutes() -> None:
    """Its first join waits that long; its client may be gone."""
    script = Script()
    leader, _ = script.stable(
        2, rebalance_timeout_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS, session_timeout_ms=1_800_000
    )
    newcomer = script.member()
    newcomer.join()
    script.world.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert newcomer.answers() == []
    assert members_of(script) == 3
    script.world.advance(1)
    assert newcomer.take()["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert members_of(script) == 2
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_parked_member_needs_no_heartbeat() -> None:
    """Its session begins again with the response."""
    script = Script()
    leader, follower = script.stable(2, rebalance_timeout_ms=300_000)
    leader.join()
    for _ in range(4):
        script.world.advance(SESSION_MS - 1)
        assert follower.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    follower.join()
    assert leader.take_join()["error_code"] == ErrorCode.NONE
    script.world.advance(SESSION_MS - 1)
    assert members_of(script) == 2


@pytest.mark.parametrize("retention_minutes", [1, 10])
def test_offsets_expire(retention_minutes: int) -> None:
    """Counted from when the group became empty, looked for now and then."""
    script = Script(
        offsets_retention_minutes=retention_minutes, offsets_retention_check_interval_ms=1
    )
    (member,) = script.stable(1)
    assert member.commit(1) == ErrorCode.NONE
    assert member.leave() == ErrorCode.NONE
    script.world.advance(retention_minutes * MINUTE_MS - 1)
    assert len(script.world.cluster.group(GROUP).offsets) == 1
    script.world.advance(1)
    assert script.world.cluster.groups() == []


def test_offsets_of_topics_that_are_read_stay() -> None:
    """In a stable group of consumers only the others expire."""
    script = Script(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1)
    script.world.cluster.create_topic("other", 1)
    (member,) = script.stable(1)
    assert member.commit(1) == ErrorCode.NONE
    assert member.commit(1, topic="other") == ErrorCode.NONE
    for _ in range(7):
        script.world.advance(SESSION_MS - 1)
        assert member.heartbeat() == ErrorCode.NONE
    assert [it.topic for it in script.world.cluster.group(GROUP).offsets] == ["orders"]


def test_a_request_may_bring_a_retention_time() -> None:
    """Versions 2 to 4 do."""
    script = Script(offsets_retention_check_interval_ms=1)
    admin = script.member()
    assert admin.commit(5, version=2, retention_time_ms=1_000) == ErrorCode.NONE
    script.world.advance(999)
    assert len(script.world.cluster.group(GROUP).offsets) == 1
    script.world.advance(1)
    assert script.world.cluster.groups() == []


def test_a_write_that_followers_do_not_take() -> None:
    """The commit is answered when `offsets_commit_timeout_ms` is over, and is not seen."""
    script = Script(brokers=2)
    leader_id = script.find()
    script.world.cluster.set_follower_lag("__consumer_offsets", 0, 1 - leader_id, None)
    admin = script.member(broker=leader_id)
    admin.send_commit(5)
    script.world.advance(4_999)
    assert admin.answers() == []
    script.world.advance(1)
    answer = admin.take()
    (partition,) = answer["topics"][0]["partitions"]
    assert partition["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.world.cluster.group(GROUP).offsets == {}
