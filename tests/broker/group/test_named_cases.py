"""The coordinator's cases of Kafka's own tests, as tests of this broker.

`NAMED` says which test shows a case; the names are those of Kafka's methods without `test`, of
`GroupMetadataManagerTest`, `OffsetMetadataManagerTest` and the 3.x `GroupCoordinatorTest` (4.3.1).
"""

import dataclasses
import importlib
from typing import Any

import pytest

from kprod.broker.group.offsets_log import told
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, REBALANCE_MS, SESSION_MS, Member, Script, subscription
from tests.broker.world import Client

_HERE, _TIMES, _WRITES = "test_named_cases", "test_times", "test_writes"
_SCENARIOS, _MOVES, _RECORDS = "test_scenarios", "test_moves", "test_records"

NAMED: dict[str, tuple[str, str]] = {
    "LastJoiningMembersAreKickedOutWhenRejoiningGroupWithMaxSize": (
        _HERE,
        "test_the_last_to_join_are_rejected_by_a_full_group",
    ),
    "JoinGroupReachesMaxSize": (_HERE, "test_a_full_group_takes_nobody"),
    "DynamicMembersJoinGroupWithMaxSizeAndRequiredKnownMember": (
        _HERE,
        "test_ids_are_given_out_beyond_the_size_and_cannot_be_used",
    ),
    "OnLoadedExceedGroupMaxSizeTriggersRebalance": (
        _HERE,
        "test_a_loaded_group_that_is_too_large_rebalances",
    ),
    "OnLoadedSchedulesClassicGroupMemberHeartbeats": (_HERE, "test_loaded_members_have_sessions"),
    "ResetRebalanceDelayWhenNewMemberJoinsGroupDuringInitialRebalance": (
        _TIMES,
        "test_initial_delay_up_to_the_rebalance_timeout",
    ),
    "DelayRebalanceUptoRebalanceTimeout": (
        _TIMES,
        "test_initial_delay_up_to_the_rebalance_timeout",
    ),
    "CompleteJoinPhaseNoMembersRejoinedExtendsJoinPhase": (
        _HERE,
        "test_a_phase_that_only_static_members_miss_is_extended",
    ),
    "CompleteJoinRemoveNotYetRejoinedDynamicMembers": (_TIMES, "test_rebalance_timeout"),
    "StaticMemberRejoinWithNewMemberIdAndChangeOfProtocol": (
        _HERE,
        "test_a_static_member_that_changes_the_protocol_rebalances",
    ),
    "StaticMemberRejoinAsFollowerWithUnknownMemberId": (
        _HERE,
        "test_a_static_follower_comes_again_without_a_rebalance",
    ),
    "StaticMemberRejoinAsLeaderWithUnknownMemberId": (
        _HERE,
        "test_a_static_leader_comes_again_without_a_rebalance",
    ),
    "StaticMemberRejoinWithLeaderIdAndUnknownMemberId": (
        _HERE,
        "test_a_static_leader_comes_again_without_a_rebalance",
    ),
    "StaticMemberRejoinWithLeaderIdAndKnownMemberId": (
        _HERE,
        "test_a_static_leader_that_knows_its_id_rebalances",
    ),
    "StaticMemberRejoinWithFollowerIdAndChangeOfProtocol": (
        _HERE,
        "test_a_static_member_that_changes_the_protocol_rebalances",
    ),
    "StaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWhenSelectProtocolUnchanged": (
        _HERE,
        "test_a_static_member_that_changes_no_choice_does_not_rebalance",
    ),
    "StaticMemberReJoinWithIllegalStateAsUnknownMember": (
        _HERE,
        "test_a_static_member_comes_again_while_the_group_rebalances",
    ),
    "StaticMemberFollowerFailToRejoinBeforeRebalanceTimeout": (
        _HERE,
        "test_a_static_follower_that_is_late_stays_until_its_session_ends",
    ),
    "StaticMemberLeaderFailToRejoinBeforeRebalanceTimeout": (
        _HERE,
        "test_a_static_leader_that_is_late_is_followed_by_another",
    ),
    "JoinGroupWithStaticFencedMember": (_HERE, "test_the_old_id_of_a_static_member_is_fenced"),
    "StaticMemberFenceDuplicateRejoinedFollower": (
        _HERE,
        "test_a_duplicate_of_a_static_member_fences_the_join_that_waits",
    ),
    "StaticMemberFenceDuplicateSyncingFollower": (
        _HERE,
        "test_a_duplicate_of_a_static_member_fences_the_sync_that_waits",
    ),
    "HeartbeatWithFencedInstance": (_HERE, "test_the_old_id_of_a_static_member_is_fenced"),
    "StaticMemberHeartbeatLeaderWithInvalidMemberId": (
        _HERE,
        "test_the_old_id_of_a_static_member_is_fenced",
    ),
    "GroupStuckInRebalanceTimeoutDueToNonjoinedStaticMember": (
        _HERE,
        "test_a_group_does_not_wait_for_ever_for_a_static_member",
    ),
    "ReplaceStaticMemberInStableStateErroneous": (
        _WRITES,
        "test_a_replacement_that_cannot_be_written_is_undone",
    ),
    "RebalanceTimesOutWhenSyncRequestIsNotReceivedFromLeaders": (_TIMES, "test_sync_timeout"),
    "RebalanceTimesOutWhenSyncRequestIsNotReceivedFromFollowers": (
        _HERE,
        "test_followers_that_do_not_sync_are_removed",
    ),
    "RebalanceDoesNotTimeOutWhenAllSyncAreReceived": (
        _HERE,
        "test_nobody_is_removed_if_all_have_synced",
    ),
    "NewMemberFailureAfterJoinGroupCompletion": (
        _HERE,
        "test_a_new_member_that_fails_after_its_join",
    ),
    "NewMemberJoinExpiration": (_TIMES, "test_a_new_members_five_minutes"),
    "NewMemberTimeoutCompletion": (_TIMES, "test_a_new_members_five_minutes"),
    "SecondMemberPartiallyJoinAndTimeout": (_TIMES, "test_an_id_that_is_never_used"),
    "PendingMembersLeaveGroup": (_HERE, "test_an_unused_id_that_leaves_ends_the_wait"),
    "SyncGroupAsLeaderAppendFailureTransformsError": (
        _WRITES,
        "test_an_assignment_that_cannot_be_written",
    ),
    "SyncGroupFromUnknownMember": (_HERE, "test_requests_of_nobody"),
    "FirstMemberJoin...AppendErrorConversion": (
        _WRITES,
        "test_a_new_group_whose_record_cannot_be_written",
    ),
    "JoinGroupAppendErrorConversion": (_HERE, "test_the_errors_of_an_append"),
    "CleanupExpiredOffsets": (_TIMES, "test_offsets_expire"),
    "CleanupExpiredOffsetsWithoutSubscribedTopics": (
        _TIMES,
        "test_offsets_of_topics_that_are_read_stay",
    ),
    "CleanupExpiredOffsetsWithPendingTransactionalOffsets": (
        _RECORDS,
        "test_open_transactions_keep_a_group_from_expiry_and_deletion",
    ),
    "ReplayTransactionEndMarkerKeepsTheMostRecentCommittedOffset": (
        _RECORDS,
        "test_a_late_marker_keeps_the_most_recent_offset",
    ),
    "ReplayTransactionEndMarkerWithAbort": (_RECORDS, "test_an_aborted_transaction_leaves_nothing"),
    "OffsetTombstoneWithTransactionalOffsets": (
        _RECORDS,
        "test_a_tombstone_removes_pending_offsets_too",
    ),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_named_case_has_its_test(case: str) -> None:
    """The table names tests that exist."""
    module, name = NAMED[case]
    assert callable(getattr(importlib.import_module(f"tests.broker.group.{module}"), name))


def static(script: Script, name: str, **fields: Any) -> Member:
    """A static member that has done nothing yet, or the same one started again."""
    return script.member(group_instance_id=name, **fields)


def static_pair(script: Script, **fields: Any) -> list[Member]:
    """A leader and a follower, static and stable."""
    pair = [static(script, name, **fields) for name in ("leader", "follower")]
    pair[0].join()
    pair[0].take_join()
    pair[1].join()
    pair[0].join()
    for member in pair:
        assert member.take_join()["error_code"] == ErrorCode.NONE
    script.sync(pair)
    return pair


def protocols(*names: str) -> list[dict[str, object]]:
    """Protocols of the same subscription."""
    return [{"name": name, "metadata": subscription("orders")} for name in names]


# Sizes.


def test_a_full_group_takes_nobody() -> None:
    """A new member is rejected, and known ones are not."""
    script = Script(group_max_size=2)
    leader, follower = script.stable(2)
    newcomer = script.member()
    newcomer.join_version = 3
    newcomer.join()
    assert newcomer.take()["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert script.state == "Stable"
    leader.join()
    follower.join()
    assert leader.take_join()["error_code"] == ErrorCode.NONE
    assert follower.take_join()["error_code"] == ErrorCode.NONE


def test_the_last_to_join_are_rejected_by_a_full_group() -> None:
    """While a group rebalances, the members that come first stay in it."""
    script = Script(group_max_size=2, group_initial_rebalance_delay_ms=3_000)
    members = [script.member() for _ in range(4)]
    for member in members:
        member.join_version = 3
        member.join()
    codes = [it.take()["error_code"] for it in members[2:]]
    assert codes == [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    script.world.advance(3_000)
    script.world.advance(3_000)
    assert [it.take_join()["generation_id"] for it in members[:2]] == [1, 1]


def test_ids_are_given_out_beyond_the_size_and_cannot_be_used() -> None:
    """An empty group gives an id to every client; the join phase counts the joins that wait."""
    script = Script(group_max_size=1, group_initial_rebalance_delay_ms=3_000)
    body = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
    }
    members = [script.member() for _ in range(3)]
    for member in members:
        member.member_id = script.ask(ApiKey.JOIN_GROUP, 9, **body)["member_id"]
    for member in members:
        member.join()
    codes = [it.take()["error_code"] for it in members[1:]]
    assert codes == [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    script.world.advance(3_000)
    assert members[0].take_join()["error_code"] == ErrorCode.NONE


def test_a_loaded_group_that_is_too_large_rebalances() -> None:
    """Its size limit may have been lowered since."""
    script = Script(brokers=2)
    members = script.stable(3)
    state = script.world.cluster._kprod.engine.state
    state.config = dataclasses.replace(state.config, group_max_size=2)
    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    assert script.state == "PreparingRebalance"
    moved = [Member(script.world.client(script.find()), {}) for _ in members]
    for member, old in zip(moved, members, strict=True):
        member.member_id, member.generation = old.member_id, old.generation
        member.join()
    assert moved[2].take()["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_loaded_members_have_sessions() -> None:
    """They end as long after the load as they would after a heartbeat."""
    script = Script(brokers=2)
    script.stable(1)
    script.world.advance(SESSION_MS - 1)
    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    script.world.advance(SESSION_MS - 1)
    assert script.state == "Stable"
    script.world.advance(1)
    assert script.state == "Empty"


# Static members.


def test_a_static_follower_comes_again_without_a_rebalance() -> None:
    """It gets its assignment by a sync, under another id."""
    script = Script()
    leader, follower = static_pair(script)
    again = static(script, "follower")
    again.join()
    answer = again.take_join()
    assert (answer["error_code"], answer["generation_id"]) == (ErrorCode.NONE, leader.generation)
    assert (answer["leader"], answer["members"]) == (leader.member_id, [])
    assert again.member_id != follower.member_id
    again.sync()
    assert again.take()["assignment"] == follower.member_id.encode()
    assert leader.heartbeat() == ErrorCode.NONE


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_leader_comes_again_without_a_rebalance(version: int) -> None:
    """From version 9 it is told to skip the assignment; before, that another is the leader."""
    script = Script()
    leader, follower = static_pair(script)
    again = static(script, "leader")
    again.join_version = version
    again.join()
    answer = again.take_join()
    assert answer["error_code"] == ErrorCode.NONE
    assert script.state == "Stable"
    if version == 9:
        assert answer["skip_assignment"] is True
        assert answer["leader"] == again.member_id
        assert len(answer["members"]) == 2
    else:
        assert (answer["leader"], answer["members"]) == (leader.member_id, [])
    again.sync()
    assert again.take()["assignment"] == leader.member_id.encode()
    assert follower.heartbeat() == ErrorCode.NONE


def test_a_static_leader_that_knows_its_id_rebalances() -> None:
    """A leader's join in Stable begins a rebalance, static or not."""
    script = Script()
    leader, follower = static_pair(script)
    leader.join()
    assert script.state == "PreparingRebalance"
    follower.join()
    assert leader.take_join()["leader"] == leader.member_id


def test_a_static_member_that_changes_the_protocol_rebalances() -> None:
    """The group would choose another protocol with it."""
    script = Script()
    leader, follower = static_pair(script, protocols=protocols("range", "sticky"))
    again = static(script, "follower", protocols=protocols("sticky"))
    again.join()
    assert again.answers() == []
    assert script.state == "PreparingRebalance"
    leader.join()
    assert again.take_join()["protocol_name"] == "sticky"
    assert follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_changes_no_choice_does_not_rebalance() -> None:
    """It brings another list, and the group chooses as before."""
    script = Script()
    static_pair(script, protocols=protocols("range", "sticky"))
    again = static(script, "follower", protocols=protocols("range"))
    again.join()
    assert again.take_join()["error_code"] == ErrorCode.NONE
    assert script.state == "Stable"


def test_a_static_member_comes_again_while_the_group_rebalances() -> None:
    """Its join waits for the others."""
    script = Script()
    leader, _ = static_pair(script)
    leader.join()
    again = static(script, "follower")
    again.join()
    assert again.take_join()["generation_id"] == leader.take_join()["generation_id"]


def test_a_static_follower_that_is_late_stays_until_its_session_ends() -> None:
    """A rebalance does not remove it."""
    script = Script()
    leader, follower = static_pair(script, session_timeout_ms=REBALANCE_MS * 2)
    leader.join()
    script.world.advance(REBALANCE_MS)
    assert len(leader.take_join()["members"]) == 2
    assert follower.heartbeat(generation_id=script.generation) == ErrorCode.NONE
    script.world.advance(REBALANCE_MS - 1)
    assert len(script.world.cluster.group(GROUP).members) == 2


def test_a_static_leader_that_is_late_is_followed_by_another() -> None:
    """The first member that has joined leads, and the old leader stays in the group."""
    script = Script()
    leader, follower = static_pair(script, session_timeout_ms=REBALANCE_MS * 2)
    newcomer = script.member()
    newcomer.join()
    follower.join()
    script.world.advance(REBALANCE_MS)
    answer = follower.take_join()
    assert answer["leader"] == follower.member_id
    assert leader.member_id in {it["member_id"] for it in answer["members"]}


def test_a_phase_that_only_static_members_miss_is_extended() -> None:
    """By another rebalance timeout, since nobody is there to lead."""
    script = Script()
    leader, follower = static_pair(script, session_timeout_ms=REBALANCE_MS * 4)
    script.world.cluster.rebalance(GROUP)
    script.world.advance(REBALANCE_MS)
    assert script.state == "PreparingRebalance"
    follower.join()
    script.world.advance(REBALANCE_MS - 1)
    assert follower.answers() == []
    script.world.advance(1)
    assert follower.take_join()["leader"] == follower.member_id
    assert leader.heartbeat(generation_id=script.generation) == ErrorCode.NONE


def test_a_group_does_not_wait_for_ever_for_a_static_member() -> None:
    """A member that leaves, and a static one that never joins again, end in a new generation."""
    script = Script()
    leader, _ = static_pair(script, session_timeout_ms=REBALANCE_MS * 2)
    dynamic = script.member()
    dynamic.join()
    leader.join()
    script.world.advance(REBALANCE_MS)
    assert leader.take_join()["error_code"] == ErrorCode.NONE
    dynamic.take_join()
    assert dynamic.leave() == ErrorCode.NONE
    leader.join()
    script.world.advance(REBALANCE_MS)
    assert leader.take_join()["error_code"] == ErrorCode.NONE


def test_the_old_id_of_a_static_member_is_fenced() -> None:
    """In each request that names the instance; without it the id is unknown."""
    script = Script()
    leader, follower = static_pair(script)
    again = static(script, "follower")
    again.join()
    again.take_join()
    assert follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert follower.heartbeat(group_instance_id=None) == ErrorCode.UNKNOWN_MEMBER_ID
    follower.join()
    assert follower.take()["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    follower.sync()
    assert follower.take()["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert follower.commit(1, group_instance_id="follower") == ErrorCode.FENCED_INSTANCE_ID
    assert leader.heartbeat(group_instance_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_duplicate_of_a_static_member_fences_the_join_that_waits() -> None:
    """Two processes with one instance id: the later one stays."""
    script = Script()
    leader, follower = static_pair(script)
    script.member().join()
    follower.join()
    assert follower.answers() == []
    again = static(script, "follower")
    again.join()
    assert follower.take()["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    leader.join()
    assert again.take_join()["error_code"] == ErrorCode.NONE


def test_a_duplicate_of_a_static_member_fences_the_sync_that_waits() -> None:
    """And the group rebalances."""
    script = Script()
    leader, follower = static_pair(script)
    leader.join()
    follower.join()
    leader.take_join()
    follower.take_join()
    follower.sync()
    again = static(script, "follower")
    again.join()
    assert follower.take()["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert script.state == "PreparingRebalance"


# Failures.


def test_followers_that_do_not_sync_are_removed() -> None:
    """The leader has, and joins again."""
    script = Script()
    leader, follower = script.stable(2, session_timeout_ms=REBALANCE_MS * 2)
    leader.join()
    follower.join()
    leader.take_join()
    follower.take_join()
    leader.sync({leader.member_id: b"1", follower.member_id: b"2"})
    assert leader.take()["error_code"] == ErrorCode.NONE
    script.world.advance(REBALANCE_MS - 1)
    assert script.state == "Stable"
    script.world.advance(1)
    assert script.state == "PreparingRebalance"
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_nobody_is_removed_if_all_have_synced() -> None:
    """The wait for syncs ends with the last one."""
    script = Script()
    script.stable(2, session_timeout_ms=REBALANCE_MS * 2)
    waiting = script.world.cluster._kprod.engine.state.groups.waiting
    assert waiting.syncs.delayed_count == 0
    script.world.advance(REBALANCE_MS)
    assert script.state == "Stable"


def test_a_new_member_that_fails_after_its_join() -> None:
    """Its session timeout counts from the response, not the five minutes of a new member."""
    script = Script()
    leader, follower = script.stable(2)
    newcomer = script.member()
    newcomer.join()
    leader.join()
    follower.join()
    newcomer.take_join()
    leader.take_join()
    follower.take_join()
    script.world.advance(SESSION_MS - 1)
    assert leader.heartbeat() == ErrorCode.NONE
    assert follower.heartbeat() == ErrorCode.NONE
    script.world.advance(1)
    assert script.state == "PreparingRebalance"
    assert len(script.world.cluster.group(GROUP).members) == 2


def test_an_unused_id_that_leaves_ends_the_wait() -> None:
    """A rebalance waits for an id that was given out, until it leaves."""
    script = Script()
    (leader,) = script.stable(1)
    body = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
    }
    member_id = script.ask(ApiKey.JOIN_GROUP, 9, **body)["member_id"]
    leader.join()
    assert leader.answers() == []
    answer = script.ask(ApiKey.LEAVE_GROUP, 0, group_id=GROUP, member_id=member_id)
    assert answer["error_code"] == ErrorCode.NONE
    assert leader.take_join()["error_code"] == ErrorCode.NONE


def test_requests_of_nobody() -> None:
    """An id that was never given out is unknown, in whatever is asked."""
    script = Script()
    script.stable(1)
    stranger = script.member()
    stranger.member_id, stranger.generation = "nobody", script.generation
    stranger.join()
    assert stranger.take()["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    stranger.sync()
    assert stranger.take()["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.commit(1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave() == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("failure", "told_as"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_the_errors_of_an_append(failure: ErrorCode, told_as: ErrorCode) -> None:
    """Each has its code for the group's clients."""
    assert told(failure) == told_as


def test_an_assignment_that_is_too_large() -> None:
    """The leader is told, and so are the others; the group rebalances."""
    script = Script()
    leader, follower = script.stable(2)
    leader.join()
    follower.join()
    leader.take_join()
    follower.take_join()
    follower.sync()
    leader.sync({leader.member_id: bytes(2 << 20)})
    assert leader.take()["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert follower.take()["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert script.state == "PreparingRebalance"


def test_a_client_that_is_gone_stays_a_member_until_its_session_ends() -> None:
    """Its connection closed while its join was parked; the response goes nowhere."""
    script = Script()
    leader, follower = script.stable(2)
    follower.join(protocols=protocols("range", "sticky"))
    assert script.state == "PreparingRebalance"
    _close(follower.client)
    leader.join()
    assert leader.take_join()["error_code"] == ErrorCode.NONE
    assert len(script.world.cluster.group(GROUP).members) == 2
    script.world.advance(SESSION_MS - 1)
    assert leader.heartbeat() == ErrorCode.NONE
    script.world.advance(1)
    assert len(script.world.cluster.group(GROUP).members) == 1
    assert script.world.cluster.failures == ()


def _close(client: Client) -> None:
    client.stream.client_closed = True
    client.world.step()
