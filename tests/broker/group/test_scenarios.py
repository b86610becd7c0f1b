"""The scenarios of the coordinator's original design, by name, and its five conclusions."""

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Script


def test_first_rebalance() -> None:
    """Members come to an empty group, and all joins are answered together."""
    script = Script(group_initial_rebalance_delay_ms=3_000)
    members = [script.member() for _ in range(3)]
    for member in members:
        member.join()
    assert script.state == "PreparingRebalance"
    assert [it.answers() for it in members] == [[], [], []]

    # The others came within the first delay, so it is given once more.
    script.world.advance(3_000)
    assert script.state == "PreparingRebalance"
    script.world.advance(3_000)

    answers = [it.take_join() for it in members]
    assert {it["generation_id"] for it in answers} == {1}
    assert {it["leader"] for it in answers} == {members[0].member_id}
    assert [len(it["members"]) for it in answers] == [3, 0, 0]
    assert script.state == "CompletingRebalance"
    script.sync(members)


def test_second_rebalance_leader_first() -> None:
    """The leader's join begins it, and it stays leader."""
    script = Script()
    members = script.stable(3)

    members[0].join()
    assert script.state == "PreparingRebalance"
    assert members[0].answers() == []
    assert [it.heartbeat() for it in members[1:]] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    members[1].join()
    assert members[1].answers() == []
    members[2].join()

    answers = [it.take_join() for it in members]
    assert {it["leader"] for it in answers} == {members[0].member_id}
    assert {it["generation_id"] for it in answers} == {members[0].generation}
    script.sync(members)


def test_followers_before_the_leader() -> None:
    """A known follower that joins in Stable is answered at once and changes nothing."""
    script = Script()
    members = script.stable(3)
    generation = script.generation

    members[1].join()
    answer = members[1].take_join()
    assert (answer["error_code"], answer["generation_id"]) == (ErrorCode.NONE, generation)
    assert answer["members"] == []
    assert script.state == "Stable"
    members[0].join()
    assert script.state == "PreparingRebalance"
    members[1].join()
    members[2].join()
    assert {it.take_join()["generation_id"] for it in members} == {generation + 1}


def test_a_new_member_first() -> None:
    """A new member begins it; the second one is parked, as conclusions two and three have it."""
    script = Script()
    leader, follower = script.stable(2)
    newcomer = script.member()

    newcomer.join()
    assert script.state == "PreparingRebalance"
    follower.join()
    assert (newcomer.answers(), follower.answers()) == ([], [])
    leader.join()

    answers = [it.take_join() for it in (leader, follower, newcomer)]
    assert {it["leader"] for it in answers} == {leader.member_id}
    assert len({it["generation_id"] for it in answers}) == 1
    script.sync([leader, follower, newcomer])


def test_a_members_failure() -> None:
    """Its session ends, the others rebalance without it."""
    script = Script()
    leader, follower = script.stable(2)
    script.world.advance(9_999)
    assert leader.heartbeat() == ErrorCode.NONE
    assert len(script.world.cluster.group(GROUP).members) == 2

    script.world.advance(1)

    assert script.state == "PreparingRebalance"
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    leader.join()
    assert leader.take_join()["members"][0]["member_id"] == leader.member_id


def test_ten_joins_on_one_key_of_the_purgatory() -> None:
    """The first join makes the one delayed join; the others only add themselves."""
    script = Script()
    script.stable(1)
    waiting = script.world.cluster._kprod.engine.state.groups.waiting
    before = waiting.joins.delayed_count
    newcomers = [script.member() for _ in range(10)]
    for member in newcomers:
        member.join()

    assert waiting.joins.delayed_count == before + 1
    assert waiting.joins.watched_count == before + 1
    assert all(it.answers() == [] for it in newcomers)
    assert script.world.cluster._kprod.engine.state.groups.view(GROUP).state == "PreparingRebalance"


def test_a_request_to_leave_behind_a_parked_join_is_processed() -> None:
    """The client has closed its connection, as one does that gives up to wait (4.3.1)."""
    script = Script()
    leader, follower = script.stable(2)
    script.member().join()
    follower.join()
    body = {"group_id": GROUP, "member_id": follower.member_id}
    follower.client.send(ApiKey.LEAVE_GROUP, 0, body)
    follower.client.stream.client_closed = True
    script.world.step()
    assert len(script.world.cluster.group(GROUP).members) == 3
    leader.join()
    assert leader.take_join()["error_code"] == ErrorCode.NONE
    assert len(script.world.cluster.group(GROUP).members) == 2
    assert script.state == "PreparingRebalance"
    assert script.world.cluster.failures == ()
