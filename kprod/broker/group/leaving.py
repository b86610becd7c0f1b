"""Members that leave, members whose session is over, and groups that end.

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
from kprod.broker.rejection import Refused
from kprod.protocol.error_table import ErrorCode


def leave(shard: CoordinatorShard, group_id: str, identities: list[Mapping[str, Any]]) -> list[int]:
    """Take members out, all of them before the others are told.

    Args:
        shard: The shard that holds the group.
        group_id: The group.
        identities: `member_id` and `group_instance_id` of each.

    Returns:
        An error code for each.

    Raises:
        Refused: The state takes nobody out.
    """
    group = shard.groups.get(group_id)
    if group is None:
        return [ErrorCode.UNKNOWN_MEMBER_ID for _ in identities]
    code = rejection(Event.LEAVE, group.state)
    if code != ErrorCode.NONE:
        raise Refused(code)
    codes = [_left(group, it["member_id"], it["group_instance_id"]) for it in identities]
    if ErrorCode.NONE in codes and group.state is not GroupState.EMPTY:
        prepare_or_complete(shard, group)
    return codes


def expire(shard: CoordinatorShard, group: Group, member_id: str) -> None:
    """A session is over.

    Args:
        shard: The shard that holds the group.
        group: Of the member.
        member_id: A member, or an id that was given out and never used.
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
    """Take out a member that gave no sign of life, and let the others rebalance."""
    _take_out(group, member)
    if group.state is GroupState.PREPARING:
        complete_early(shard, group)
    else:
        prepare_or_complete(shard, group)


def drop(group: Group, member_id: str) -> None:
    """Take out a member, or an id that was given out, for which there is no room."""
    pending = group.pending_joins.pop(member_id, None)
    if pending is not None:
        pending.force_complete()
    elif member_id in group.members:
        _take_out(group, group.members[member_id])


def stop(group: Group, code: int) -> None:
    """Answer everything that waits in a group, and stop its timers.

    Args:
        group: It is about to end.
        code: What the waiting requests are told.
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
    """End a group: the log says that it is gone, or never heard of it.

    Args:
        shard: The shard that holds the group.
        group: Not Dead.
        code: What its waiting requests are told.
    """
    stop(group, code)
    shard.move(group, GroupState.DEAD)
    if shard.groups.get(group.group_id) is group:
        del shard.groups[group.group_id]


def _left(group: Group, member_id: str, instance_id: str | None) -> int:
    if member_id == NO_MEMBER_ID:
        # An administrator names static members by their instance alone.
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
    except Refused as refused:
        return refused.code
    _take_out(group, member)
    return ErrorCode.NONE


def _take_out(group: Group, member: Member) -> None:
    sessions.end(member)
    reject_join(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    answer_sync(member, sync_rejected(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
