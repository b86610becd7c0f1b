"""What a JoinGroup request says about its member, in every version.

Thread-safety: the broker's thread.
Source: Kafka JoinGroupRequest (clients 4.3.1).
"""

from kprod.broker.group.answers import join_rejected
from kprod.broker.group.classic_group import Group
from kprod.broker.group.member import Member, Protocols
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode


def protocols_of(request: Request) -> Protocols:
    """The protocols that it supports, the preferred one first."""
    return tuple((it["name"], bytes(it["metadata"])) for it in request.body["protocols"])


def rebalance_timeout_of(request: Request) -> int:
    """Its rebalance timeout in ms; version 0 has the session timeout for it."""
    name = "rebalance_timeout_ms" if request.api_version > 0 else "session_timeout_ms"
    return max(int(request.body[name]), 0)


def new_member(request: Request, member_id: str) -> Member:
    """Make the member that it describes.

    Args:
        request: Its first join.
        member_id: The coordinator's name for it.

    Returns:
        A member whose first join is not answered.
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
    """Give a member what its new join says, and park the join.

    Args:
        group: Of the member.
        member: The member that joins again.
        request: Its join.
    """
    group.update(member, protocols_of(request))
    member.session_timeout_ms = request.body["session_timeout_ms"]
    member.rebalance_timeout_ms = rebalance_timeout_of(request)
    displaced = member.parked_join
    group.park_join(member, request)
    if displaced is not None:
        # Kafka forgets it; here every request is answered once.
        code = ErrorCode.REBALANCE_IN_PROGRESS
        displaced.answer(join_rejected(displaced, code, member.member_id))
