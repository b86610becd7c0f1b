"""The responses of JoinGroup and SyncGroup, and how a parked request gets one.

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
    """A JoinGroup answer with an error."""
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
    """A JoinGroup answer with the present generation.

    Args:
        group: The group.
        member: The member that gets it.
        with_members: Whether it is told the members, as the leader is.
        skip_assignment: Whether the leader is not to assign.

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
    """A SyncGroup answer with an error."""
    return {
        "error_code": int(code),
        "protocol_type": None,
        "protocol_name": None,
        "assignment": b"",
    }


def synced(group: Group, member: Member) -> Body:
    """A SyncGroup answer with a member's assignment."""
    return {
        "error_code": int(ErrorCode.NONE),
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def answer_join(group: Group, member: Member, body: Body) -> bool:
    """Answer a member's parked join.

    Args:
        group: Of the member.
        member: With a parked join or without.
        body: The response.

    Returns:
        Whether one was parked.
    """
    request = member.parked_join
    if request is None:
        return False
    group.park_join(member, None)
    request.answer(body)
    return True


def reject_join(group: Group, member: Member, code: int) -> None:
    """Answer a member's parked join with an error."""
    if member.parked_join is not None:
        answer_join(group, member, join_rejected(member.parked_join, code, member.member_id))


def answer_sync(member: Member, body: Body) -> bool:
    """Answer a member's parked sync.

    Args:
        member: With a parked sync or without.
        body: The response.

    Returns:
        Whether one was parked.
    """
    request, member.parked_sync = member.parked_sync, None
    if request is None:
        return False
    request.answer(body)
    return True


def _described(group: Group) -> list[dict[str, Any]]:
    """The members as the leader is told them."""
    return [
        {
            "member_id": it.member_id,
            "group_instance_id": it.instance_id,
            "metadata": it.metadata(group.protocol),
        }
        for it in group.members.values()
    ]
