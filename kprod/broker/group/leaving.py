"""Handles members that leave, expired sessions, and groups that end.

Thread-safety: the broker's thread.
Source: Kafka GroupMetadataManager: classicGroupLeave, removeMemberAndUpdateClassicGroup,
removePendingMemberAndUpdateClassicGroup (4.3.1).
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.group import sessions
from kprod.broker.group.answers import NO_MEMBER_ID, answer_sync, reject_join, sync_rejected
from kprod.broker.group.classic_group import Group
from kprod.broker.group.member import Member
from kprod.broker.group.rebalance import (
    complete_early,
    end_join_wait,
    end_sync_wait,
    prepare_or_complete,
)
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import Event, GroupState, rejection
from kprod.broker.rejection import Rejected
from kprod.protocol.error_table import ErrorCode


def leave(shard: CoordinatorShard, group_id: str, identities: list[Mapping[str, Any]]) -> list[int]:
    """Remove members, all of them before the remaining ones are notified.

    Args:
        shard: The shard that holds the group.
        group_id: Id of the group.
        identities: `member_id` and `group_instance_id` of each member.

    Returns:
        An error code for each member.

    Raises:
        Rejected: The group's state allows no removal.
    """
    group = shard.groups.get(group_id)
    if group is None:
        return [ErrorCode.UNKNOWN_MEMBER_ID for _ in identities]
    code = rejection(Event.LEAVE, group.state)
    if code != ErrorCode.NONE:
        raise Rejected(code)
    codes = [_left(group, it["member_id"], it["group_instance_id"]) for it in identities]
    if ErrorCode.NONE in codes and group.state is not GroupState.EMPTY:
        prepare_or_complete(shard, group)
    return codes


def expire(shard: CoordinatorShard, group: Group, member_id: str) -> None:
    """Handle an expired session.

    Args:
        shard: The shard that holds the group.
        group: The member's group.
        member_id: A member's id, or an assigned id that was never used.
    """
    if group.state is GroupState.DEAD:
        return
    if group.pending_joins.pop(member_id, None) is not None:
        if group.state is GroupState.PREPARING:
            prepare_or_complete(shard, group)
        return
    member = group.members.get(member_id)
    if member is not None and not member.has_heartbeat:
        remove(shard, group, member)


def remove(shard: CoordinatorShard, group: Group, member: Member) -> None:
    """Remove an expired member and rebalance the others."""
    _take_out(group, member)
    if group.state is GroupState.PREPARING:
        complete_early(shard, group)
    else:
        prepare_or_complete(shard, group)


def drop(group: Group, member_id: str) -> None:
    """Remove a member, or an assigned id, for which the group has no room."""
    pending = group.pending_joins.pop(member_id, None)
    if pending is not None:
        pending.force_complete()
    elif member_id in group.members:
        _take_out(group, group.members[member_id])


def stop(group: Group, code: int) -> None:
    """Respond to all parked requests of a group with an error, and stop its timers.

    Args:
        group: A group that is about to end.
        code: Error code of the responses.
    """
    end_join_wait(group)
    end_sync_wait(group)
    for session in group.pending_joins.values():
        session.force_complete()
    group.pending_joins.clear()
    for member in group.members.values():
        sessions.end(member)
        reject_join(group, member, code)
        answer_sync(member, sync_rejected(code))


def forget_group(shard: CoordinatorShard, group: Group, code: int) -> None:
    """Remove a group that the log no longer has, or never had.

    Args:
        shard: The shard that holds the group.
        group: A group that is not Dead.
        code: Error code for its parked requests.
    """
    stop(group, code)
    shard.move(group, GroupState.DEAD)
    group.release()
    if shard.groups.get(group.group_id) is group:
        del shard.groups[group.group_id]


def _left(group: Group, member_id: str, instance_id: str | None) -> int:
    if member_id == NO_MEMBER_ID:
        # An administrator names a static member by its instance id alone.
        known = group.static_members.get(instance_id or "") if instance_id is not None else None
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        _take_out(group, group.members[known])
        return ErrorCode.NONE
    pending = group.pending_joins.pop(member_id, None)
    if pending is not None:
        pending.force_complete()
        return ErrorCode.NONE
    try:
        member = group.check_member(member_id, instance_id)
    except Rejected as rejected:
        return rejected.code
    _take_out(group, member)
    return ErrorCode.NONE


def _take_out(group: Group, member: Member) -> None:
    sessions.end(member)
    reject_join(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    answer_sync(member, sync_rejected(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
