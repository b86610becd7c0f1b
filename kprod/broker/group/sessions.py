"""The sessions of group members: heartbeats and expiry.

Thread-safety: the broker's thread.
Source: Kafka GroupMetadataManager: classicGroupHeartbeat, rescheduleClassicGroupMemberHeartbeat,
expireClassicGroupMemberHeartbeat (4.3.1).
"""

from functools import partial
from typing import Any

from kprod.broker.delayed.delayed_heartbeat import DelayedHeartbeat
from kprod.broker.group.classic_group import Group
from kprod.broker.group.member import Member
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import Event, GroupState, rejection
from kprod.protocol.error_table import ErrorCode


def heartbeat(shard: CoordinatorShard, body: dict[str, Any]) -> int:
    """Process a heartbeat.

    Args:
        shard: The shard that holds the group.
        body: The body of the request.

    Returns:
        The error code.

    Raises:
        Rejected: Group, member or generation are invalid.
    """
    group = shard.groups.get(body["group_id"])
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member = group.check_member(body["member_id"], body["group_instance_id"])
    group.check_generation(body["generation_id"])
    if group.state is not GroupState.EMPTY:
        renew(shard, group, member)
    return rejection(Event.HEARTBEAT, group.state)


def renew(
    shard: CoordinatorShard,
    group: Group,
    member: Member,
    *,
    timeout_ms: int | None = None,
) -> None:
    """Restart a member's session.

    Args:
        shard: The shard that holds the group.
        group: The member's group.
        member: A member that sent a request, or that is waited for from now on.
        timeout_ms: Duration; None for the session timeout.
    """
    end(member)
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    member.session = watched(shard, group, member.member_id, delay_ms=delay_ms)


def watched(
    shard: CoordinatorShard, group: Group, member_id: str, *, delay_ms: int
) -> DelayedHeartbeat:
    """Start a timer for a member, or for an assigned id.

    Returns:
        The running timer.
    """
    operation = DelayedHeartbeat(
        delay_ms=max(delay_ms, 0), expire=partial(shard.expire_session, shard, group, member_id)
    )
    key = ("member", group.group_id, member_id)
    shard.waiting.sessions.try_complete_or_watch(operation, (key,))
    return operation


def end(member: Member) -> None:
    """Stop a member's session timer."""
    session, member.session = member.session, None
    if session is not None:
        session.force_complete()
