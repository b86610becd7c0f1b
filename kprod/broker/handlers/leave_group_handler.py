"""LeaveGroup: removes one or more members.

Behaviour.
    A. Versions 0 to 2 name one member, whose error is that of the response; later ones a list with
       an error each.
    B. A list may name static members by their instance alone: so administrators remove them.
    C. An unknown group has no members: UNKNOWN_MEMBER_ID for each.
Rights: READ on the group.
Versions: 0 to 5.
Source: Kafka GroupCoordinatorService.leaveGroup, GroupMetadataManager.classicGroupLeave; KIP-345.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.leaving import leave
from kprod.broker.handlers.group_shard import shard_of
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_WITH_MANY_MEMBERS = 3


class LeaveGroupHandler(Handler):
    """Removes members."""

    api_key = ApiKey.LEAVE_GROUP
    versions: tuple[int, int] = (0, 5)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        identities = _identities(request)
        try:
            shard = shard_of(self._state, request)
            codes = leave(shard, request.body["group_id"], identities)
        except Rejected as rejected:
            request.answer(self.reject(request, rejected.code))
            return
        if request.api_version < _FIRST_VERSION_WITH_MANY_MEMBERS:
            request.answer({"error_code": int(codes[0])})  # case A
            return
        members = [
            {
                "member_id": it["member_id"],
                "group_instance_id": it["group_instance_id"],
                "error_code": int(code),
            }
            for it, code in zip(identities, codes, strict=True)
        ]
        request.answer({"error_code": int(ErrorCode.NONE), "members": members})

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond that no member left."""
        return {"error_code": int(code), "members": []}


def _identities(request: Request) -> list[Mapping[str, Any]]:
    if request.api_version < _FIRST_VERSION_WITH_MANY_MEMBERS:
        return [{"member_id": request.body["member_id"], "group_instance_id": None}]
    members: list[Mapping[str, Any]] = request.body["members"]
    return members
