"""Heartbeat: renews a member's session; the response says whether the group rebalances.

Behaviour.
    A. A coordinator that is still loading answers NONE, as Kafka's does.
    B. What each state answers is in `group.state`; every heartbeat that names a member and its
       generation begins the session again.
Rights: READ on the group.
Versions: 0 to 4.
Source: Kafka GroupCoordinatorService.heartbeat, GroupMetadataManager.classicGroupHeartbeat.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.sessions import heartbeat
from kprod.broker.handlers.group_shard import shard_of
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class HeartbeatHandler(Handler):
    """Renews sessions."""

    api_key = ApiKey.HEARTBEAT
    versions: tuple[int, int] = (0, 4)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        try:
            code = heartbeat(shard_of(self._state, request), request.body)
        except Rejected as rejected:
            code = rejected.code
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            code = ErrorCode.NONE  # case A
        request.answer(self.reject(request, code))

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond with the error code."""
        return {"error_code": int(code)}
