"""JoinGroup: adds a member to the next generation of a group.

Behaviour.
    A. Session timeout outside of `group_min_session_timeout_ms` and `group_max_session_timeout_ms`:
       INVALID_SESSION_TIMEOUT.
    B. `group.joining` and `group.static_members` say what a join does in each state of the group.
       While a join waits for others, its connection takes no other request.
    C. A member that joins a second time while its join waits has the first answered with
       REBALANCE_IN_PROGRESS; Kafka never answers it.
    D. The first phase of an empty group lasts `group_initial_rebalance_delay_ms`, 0 here.
    E. If two protocols have equally many votes, the one that is earlier in the leader's list is
       chosen; in Kafka the order of a hash map decides.
    F. A client id or instance id that leaves no room for the coordinator's part of the member id
       (more than 32,730 bytes): INVALID_REQUEST. Kafka fails when it writes the group's record.
    G. A static member that replaces another before that one has synced is waited for in its place;
       Kafka waits for the replaced id, and rebalances when this wait ends.
    H. A group keeps 1,000 unused member ids; the next one ends the oldest. In Kafka only their
       session timeout ends them.
    I. A protocol that a join lists twice counts once. Kafka counts it twice, so that no protocol is
       one of all members, and the join phase does not end.
Rights: READ on the group.
Versions: 0 to 9.
Left out: the protocol of KIP-848.
Source: Kafka GroupCoordinatorService.joinGroup, GroupMetadataManager.
"""

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.answers import join_rejected
from kprod.broker.group.coordinator import CLIENT_NAME_BYTES_MAX
from kprod.broker.group.joining import join
from kprod.broker.handlers.group_shard import shard_of
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class JoinGroupHandler(Handler):
    """Adds members."""

    api_key = ApiKey.JOIN_GROUP
    versions: tuple[int, int] = (0, 9)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond, immediately or at the end of the join phase."""
        try:
            if request.body["group_id"]:
                self._check_session_timeout(request)
                _check_name(request)  # case F
            shard = shard_of(self._state, request)
        except Rejected as rejected:
            request.answer(self.reject(request, rejected.code))
            return
        join(shard, request)

    def reject(self, request: Request, code: int) -> Body:
        """Respond without a generation."""
        return join_rejected(request, code, request.body["member_id"])

    def _check_session_timeout(self, request: Request) -> None:
        config = self._state.config
        lowest, highest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not lowest <= request.body["session_timeout_ms"] <= highest:
            raise Rejected(ErrorCode.INVALID_SESSION_TIMEOUT)  # case A


def _check_name(request: Request) -> None:
    instance_id = request.body["group_instance_id"]
    name = (request.client_id or "") if instance_id is None else instance_id
    if len(name.encode()) > CLIENT_NAME_BYTES_MAX:
        raise Rejected(ErrorCode.INVALID_REQUEST)
