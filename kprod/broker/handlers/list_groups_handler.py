"""ListGroups: the groups that the broker coordinates.

Behaviour.
    A. States and types are compared without case; an unknown one selects nothing.
    B. A shard is still loading: COORDINATOR_LOAD_IN_PROGRESS, and no groups.
Rights: DESCRIBE on the cluster for all groups, or on the group for one.
Versions: 0 to 5; states from 4, types from 5.
Source: Kafka GroupCoordinatorService.listGroups; KIP-518, KIP-848 for the types.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_TYPE = "classic"


class ListGroupsHandler(Handler):
    """Lists groups."""

    api_key = ApiKey.LIST_GROUPS
    versions: tuple[int, int] = (0, 5)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        shards = list(self._state.groups.shards_of(request.node_id))
        if not all(it.is_loaded for it in shards):
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            request.answer(self.reject(request, code))  # case B
            return
        states = {it.casefold() for it in request.body["states_filter"]}
        types = {it.casefold() for it in request.body["types_filter"]}
        groups = [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type or "",
                "group_state": group.state.value,
                "group_type": _TYPE,
            }
            for shard in shards
            for group in shard.groups.values()
            if request.access.may("DESCRIBE", "cluster")
            or request.access.may("DESCRIBE", "group", group.group_id)
            if (not states or group.state.value.casefold() in states)
            and (not types or _TYPE in types)  # case A
        ]
        request.answer({"error_code": int(ErrorCode.NONE), "groups": groups})

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond without groups."""
        return {"error_code": int(code), "groups": []}
