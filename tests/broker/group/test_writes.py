"""Writes to `__consumer_offsets` that wait for followers, while the group's members act."""

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Script, code_of


def held(script: Script) -> None:
    """Let followers take nothing of the offsets topic."""
    leader = script.find()
    script.world.cluster.set_follower_lag("__consumer_offsets", 0, 1 - leader, None)


def released(script: Script) -> None:
    """Let them take everything."""
    leader = script.find()
    script.world.cluster.set_follower_lag("__consumer_offsets", 0, 1 - leader, 0)
    script.world.advance(1)


def waiting_writes(script: Script) -> int:
    """How many appends wait for followers."""
    return script.world.cluster._kprod.engine.state.waiting_produces.delayed_count


def test_a_replacement_that_a_join_phase_has_answered_stays() -> None:
    """Its write fails later; the id that the client has been told must not be fenced by that."""
    script = Script(brokers=2)
    first = script.member(group_instance_id="one")
    first.join()
    first.take_join()
    script.sync([first])
    held(script)
    second = script.member(group_instance_id="one")
    second.join()
    assert second.answers() == []
    script.member().join()
    assert second.take_join()["generation_id"] == 2

    script.world.advance(5_000)

    assert waiting_writes(script) == 0
    assert second.heartbeat() == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_replacement_that_cannot_be_written_is_undone() -> None:
    """The old id is valid again, and its session begins again."""
    script = Script(brokers=2)
    first = script.member(group_instance_id="one")
    first.join()
    first.take_join()
    script.sync([first])
    held(script)
    second = script.member(group_instance_id="one")
    second.join()
    assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID

    script.world.advance(5_000)

    assert second.take()["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert first.heartbeat() == ErrorCode.NONE
    script.world.advance(9_999)
    assert script.state == "Stable"
    script.world.advance(1)
    assert script.state == "Empty"


def test_a_replacement_that_is_undone_is_undone_in_the_log_too() -> None:
    """Its record is replicated late; the coordinator that has moved agrees with the old one.

    Apache Kafka 4.3.1 does not: there a heartbeat of the old id gets NONE until the coordinator
    moves, and FENCED_INSTANCE_ID from then on.
    """
    script = Script(brokers=2)
    first = script.member(group_instance_id="one")
    first.join()
    first.take_join()
    script.sync([first])
    held(script)
    second = script.member(group_instance_id="one")
    second.join()
    script.world.advance(5_000)
    assert second.take()["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    released(script)
    before = script.world.cluster.group(GROUP)
    assert [it.member_id for it in before.members] == [first.member_id]

    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())

    assert script.world.cluster.group(GROUP).members == before.members
    first.client = script.world.client(script.find())
    assert first.heartbeat() == ErrorCode.NONE


def test_a_move_answers_a_replacement_that_is_being_written() -> None:
    """Once; and the coordinator that has moved knows what the log says."""
    script = Script(brokers=2)
    first = script.member(group_instance_id="one")
    first.join()
    first.take_join()
    script.sync([first])
    held(script)
    second = script.member(group_instance_id="one")
    second.join()

    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    script.world.step()

    assert second.take()["error_code"] == ErrorCode.NOT_COORDINATOR
    (member,) = script.world.cluster.group(GROUP).members
    assert member.member_id == first.member_id
    waiting = script.world.cluster._kprod.engine.state.groups.waiting
    assert waiting.sessions.delayed_count == 1


@pytest.mark.parametrize("how", ["group", "topic", "offset"])
def test_a_deletion_takes_commits_with_it_that_are_being_written(how: str) -> None:
    """The deletion follows them in the log, so they stay deleted, also after the next load."""
    script = Script(brokers=2)
    leader = script.find()
    admin = script.member(broker=leader)
    assert admin.commit(1) == ErrorCode.NONE
    held(script)
    admin.send_commit(7)
    deleter = script.world.client(leader)
    if how == "group":
        deleter.send(ApiKey.DELETE_GROUPS, 2, {"groups_names": [GROUP]})
    elif how == "topic":
        script.world.cluster.delete_topic("orders")
    else:
        topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
        deleter.send(ApiKey.OFFSET_DELETE, 0, {"group_id": GROUP, "topics": topics})

    released(script)

    assert code_of(admin.take()) == ErrorCode.NONE
    assert len(deleter.answers()) == (how != "topic")
    before = script.world.cluster.groups()
    assert [view.offsets for view in before] == ([] if how == "group" else [{}])
    body = {"group_id": GROUP, "topics": None, "require_stable": False}
    assert script.world.client(leader).ask(ApiKey.OFFSET_FETCH, 6, body)["topics"] == []
    script.world.cluster.move_coordinator(GROUP, to=1 - leader)
    assert [it for view in script.world.cluster.groups() for it in view.offsets] == []


def test_a_commit_after_a_deletion_counts() -> None:
    """The tombstone and the commit wait for the followers together."""
    script = Script(brokers=2)
    leader = script.find()
    admin = script.member(broker=leader)
    assert admin.commit(1) == ErrorCode.NONE
    held(script)
    deleter = script.world.client(leader)
    deleter.send(ApiKey.DELETE_GROUPS, 2, {"groups_names": [GROUP]})
    admin.send_commit(9)
    released(script)

    assert code_of(admin.take()) == ErrorCode.NONE
    (offset,) = script.world.cluster.group(GROUP).offsets.values()
    assert offset.offset == 9
    script.world.cluster.move_coordinator(GROUP, to=1 - leader)
    (offset,) = script.world.cluster.group(GROUP).offsets.values()
    assert offset.offset == 9


def test_an_assignment_that_cannot_be_written() -> None:
    """SyncGroupAsLeaderAppendFailureTransformsError: everyone is told, and joins again."""
    script = Script(brokers=2)
    leader, follower = script.stable(2)
    leader.join()
    follower.join()
    leader.take_join()
    follower.take_join()
    held(script)
    follower.sync()
    leader.sync({leader.member_id: b"1", follower.member_id: b"2"})
    assert (leader.answers(), follower.answers()) == ([], [])

    script.world.advance(5_000)

    assert leader.take()["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert follower.take()["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.state == "PreparingRebalance"
    assert [it.assignment_bytes for it in script.world.cluster.group(GROUP).members] == [b"", b""]


def test_a_member_that_comes_while_the_assignment_is_written() -> None:
    """The write that ends afterwards makes no generation stable that has been left."""
    script = Script(brokers=2)
    leader, follower = script.stable(2)
    leader.join()
    follower.join()
    leader.take_join()
    follower.take_join()
    held(script)
    follower.sync()
    leader.sync({leader.member_id: b"1", follower.member_id: b"2"})
    script.member(broker=script.find()).join()
    assert script.state == "PreparingRebalance"
    assert leader.take()["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.take()["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS

    released(script)

    assert script.state == "PreparingRebalance"
    assert (leader.answers(), follower.answers()) == ([], [])


def test_a_new_group_whose_record_cannot_be_written() -> None:
    """It is gone again, also after a replay, and its members' joins are told."""
    script = Script(brokers=2, group_initial_rebalance_delay_ms=60_000)
    held(script)
    member = script.member(broker=script.find())
    member.join()
    assert script.state == "PreparingRebalance"

    script.world.advance(5_000)

    assert member.take()["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.world.cluster.groups() == []
    released(script)
    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    assert script.world.cluster.groups() == []


def test_the_search_for_expired_offsets_runs_once() -> None:
    """The topic is deleted and made again five times, and no second search is scheduled."""
    script = Script()
    timer = script.world.cluster._kprod.engine.state.timer
    before = len(timer)
    for _ in range(5):
        script.world.cluster.delete_topic("__consumer_offsets")
        script.find()
    assert len(timer) == before


def test_a_timer_that_fails_is_a_failure_of_the_broker() -> None:
    """Reported as a handler's failure is; other timers run."""
    script = Script()
    (member,) = script.stable(1)
    state = script.world.cluster._kprod.engine.state
    error = RuntimeError("of the test")

    def fail() -> None:
        raise error

    state.after(9_999, fail)
    script.world.advance(10_000)

    assert script.world.cluster.failures == (error,)
    assert script.state == "Empty"
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x" * 4, ErrorCode.NONE),
        ("\N{CRAB}" * 2, ErrorCode.NONE),
        ("x" * 5, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\N{CRAB}" * 2 + "x", ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_the_text_of_a_commit_is_counted_as_java_counts(text: str, code: ErrorCode) -> None:
    """In UTF-16 units."""
    script = Script(offset_metadata_max_bytes=4)
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": text}
    topics = [{"name": "orders", "partitions": [partition]}]
    assert script.member().commit(1, topics=topics) == code
