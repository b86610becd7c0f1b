"""SyncGroup: returns a member's assignment; the leader sends all assignments.

Behaviour.
    A. Version 5 without protocol type or name: INCONSISTENT_GROUP_PROTOCOL.
    B. `group.syncing` says what a sync does in each state of the group. While a sync waits for the
       leader's, its connection takes no other request.
    C. A member that syncs a second time while its sync waits has the first answered with
       REBALANCE_IN_PROGRESS, and one that is removed with UNKNOWN_MEMBER_ID; Kafka never answers
       either.
Rights: READ on the group.
Versions: 0 to 5.
Source: Kafka KafkaApis.handleSyncGroupRequest, GroupMetadataManager.classicGroupSync.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.answers import sync_rejected
from kprod.broker.group.syncing import sync
from kprod.broker.handlers.group_shard import shard_of
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_WITH_PROTOCOL = 5


class SyncGroupHandler(Handler):
    """Distributes assignments."""

    api_key = ApiKey.SYNC_GROUP
    versions: tuple[int, int] = (0, 5)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond, immediately or when the leader has sent the assignments."""
        try:
            self._check_protocol(request)
            sync(shard_of(self._state, request), request)
        except Rejected as rejected:
            request.answer(self.reject(request, rejected.code))

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond without an assignment."""
        return sync_rejected(code)

    def _check_protocol(self, request: Request) -> None:
        body = request.body
        is_missing = body["protocol_type"] is None or body["protocol_name"] is None
        if request.api_version >= _FIRST_VERSION_WITH_PROTOCOL and is_missing:
            raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # case A
