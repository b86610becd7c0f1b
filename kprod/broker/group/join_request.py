"""Reads the member's data from a JoinGroup request of any version.

Thread-safety: the broker's thread.
Source: Kafka JoinGroupRequest (clients 4.3.1).
"""

from kprod.broker.group.answers import join_rejected
from kprod.broker.group.classic_group import Group
from kprod.broker.group.member import Member, Protocols
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode


def protocols_of(request: Request) -> Protocols:
    """Return the member's protocols, the preferred one first."""
    return tuple((it["name"], bytes(it["metadata"])) for it in request.body["protocols"])


def rebalance_timeout_of(request: Request) -> int:
    """Return the rebalance timeout in milliseconds; in version 0 it is the session timeout."""
    name = "rebalance_timeout_ms" if request.api_version > 0 else "session_timeout_ms"
    return max(int(request.body[name]), 0)


def new_member(request: Request, member_id: str) -> Member:
    """Create the member that a request describes.

    Args:
        request: The member's first join.
        member_id: Id that the coordinator assigned.

    Returns:
        A member whose first join has no response yet.
    """
    member = Member(
        member_id,
        instance_id=request.body["group_instance_id"],
        client_id=request.client_id or "",
        client_host=request.client_host,
        session_timeout_ms=request.body["session_timeout_ms"],
        rebalance_timeout_ms=rebalance_timeout_of(request),
        protocols=protocols_of(request),
    )
    member.is_new = True
    return member


def update_member(group: Group, member: Member, request: Request) -> None:
    """Update a member from its new join, and park the join.

    Args:
        group: The member's group.
        member: The member.
        request: Its new join.
    """
    group.update(member, protocols_of(request))
    member.session_timeout_ms = request.body["session_timeout_ms"]
    member.rebalance_timeout_ms = rebalance_timeout_of(request)
    displaced = member.parked_join
    group.park_join(member, request)
    if displaced is not None:
        # Kafka never responds to the earlier join; here every request gets a response.
        code = ErrorCode.REBALANCE_IN_PROGRESS
        displaced.answer(join_rejected(displaced, code, member.member_id))
