"""Builds JoinGroup and SyncGroup responses, and responds to parked requests.

Thread-safety: the broker's thread.
Source: Kafka JoinGroupResponse and SyncGroupResponse (clients 4.3.1).
"""

from typing import Any

from kprod.broker.group.classic_group import Group
from kprod.broker.group.member import Member
from kprod.broker.request import Body, Request
from kprod.protocol.error_table import ErrorCode

NO_MEMBER_ID = ""
_FIRST_JOIN_VERSION_WITH_NULL_PROTOCOL = 7


def join_rejected(request: Request, code: int, member_id: str) -> Body:
    """Build a JoinGroup response with an error."""
    has_null = request.api_version >= _FIRST_JOIN_VERSION_WITH_NULL_PROTOCOL
    return {
        "error_code": int(code),
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": None if has_null else "",
        "leader": "",
        "member_id": member_id,
        "members": [],
    }


def joined(
    group: Group, member: Member, *, with_members: bool, skip_assignment: bool = False
) -> dict[str, Any]:
    """Build a JoinGroup response with the current generation.

    Args:
        group: The group.
        member: The member that gets the response.
        with_members: Whether to include the members, as for the leader.
        skip_assignment: Whether the leader must not assign.

    Returns:
        The response's fields.
    """
    return {
        "error_code": int(ErrorCode.NONE),
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol or "",
        "leader": group.leader_id or "",
        "skip_assignment": skip_assignment,
        "member_id": member.member_id,
        "members": _described(group) if with_members else [],
    }


def sync_rejected(code: int) -> Body:
    """Build a SyncGroup response with an error."""
    return {
        "error_code": int(code),
        "protocol_type": None,
        "protocol_name": None,
        "assignment": b"",
    }


def synced(group: Group, member: Member) -> Body:
    """Build a SyncGroup response with a member's assignment."""
    return {
        "error_code": int(ErrorCode.NONE),
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def answer_join(group: Group, member: Member, body: Body) -> bool:
    """Respond to a member's parked join.

    Args:
        group: The member's group.
        member: The member; its join need not be parked.
        body: The response.

    Returns:
        True if a join was parked.
    """
    request = member.parked_join
    if request is None:
        return False
    group.park_join(member, None)
    request.answer(body)
    return True


def reject_join(group: Group, member: Member, code: int) -> None:
    """Respond to a member's parked join with an error."""
    if member.parked_join is not None:
        answer_join(group, member, join_rejected(member.parked_join, code, member.member_id))


def answer_sync(member: Member, body: Body) -> bool:
    """Respond to a member's parked sync.

    Args:
        member: The member; its sync need not be parked.
        body: The response.

    Returns:
        True if a sync was parked.
    """
    request, member.parked_sync = member.parked_sync, None
    if request is None:
        return False
    request.answer(body)
    return True


def _described(group: Group) -> list[dict[str, Any]]:
    """Describe the members for the leader."""
    return [
        {
            "member_id": it.member_id,
            "group_instance_id": it.instance_id,
            "metadata": it.metadata(group.protocol),
        }
        for it in group.members.values()
    ]
