"""DescribeGroups: state and members of groups.

Behaviour.
    A. An unknown group is Dead, without an error; from version 6 on also GROUP_ID_NOT_FOUND and a
       text (KIP-1043).
    B. Protocol and members' metadata are told in Stable alone.
    C. Another coordinator, or one that is loading: told for the group.
Rights: DESCRIBE on the group.
Versions: 0 to 6.
Left out: authorized operations.
Source: Kafka GroupMetadataManager.describeGroups.
"""

from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.classic_group import Group
from kprod.broker.group.member import Member
from kprod.broker.group.state import GroupState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected, shortened
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_WITH_NOT_FOUND = 6


class DescribeGroupsHandler(Handler):
    """Describes groups."""

    api_key = ApiKey.DESCRIBE_GROUPS
    versions: tuple[int, int] = (0, 6)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        request.answer({"groups": [self._one(request, it) for it in request.body["groups"]]})

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every group."""
        return {"groups": [_rejected(group_id, code) for group_id in request.body["groups"]]}

    def _one(self, request: Request, group_id: str) -> dict[str, Any]:
        try:
            request.access.check("DESCRIBE", "group", group_id)
            shard = self._state.groups.shard(request.node_id, group_id)
        except Rejected as rejected:
            return _rejected(group_id, rejected.code)  # case C
        group = shard.groups.get(group_id)
        if group is not None:
            return _described(group)
        dead = _rejected(group_id, ErrorCode.NONE) | {"group_state": GroupState.DEAD.value}
        if request.api_version >= _FIRST_VERSION_WITH_NOT_FOUND:
            dead["error_code"] = int(ErrorCode.GROUP_ID_NOT_FOUND)
            dead["error_message"] = shortened(f"Group {group_id} not found.")
        return dead  # case A


def _described(group: Group) -> dict[str, Any]:
    is_stable = group.state is GroupState.STABLE
    return {
        "error_code": int(ErrorCode.NONE),
        "error_message": None,
        "group_id": group.group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol or "") if is_stable else "",
        "members": [_member(group, it, is_stable=is_stable) for it in group.members.values()],
    }


def _member(group: Group, member: Member, *, is_stable: bool) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata(group.protocol) if is_stable else b"",  # case B
        "member_assignment": member.assignment,
    }


def _rejected(group_id: str, code: int) -> dict[str, Any]:
    return {
        "error_code": int(code),
        "error_message": None,
        "group_id": group_id,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }
