"""FindCoordinator: which broker coordinates a group or a transaction.

Behaviour.
    A. A group's coordinator is the leader of its partition of `__consumer_offsets`, which the first
       question makes. Kafka answers that one with COORDINATOR_NOT_AVAILABLE, and the client asks
       again; here it is answered. A partition without a leader: COORDINATOR_NOT_AVAILABLE.
    B. A transaction has none: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, with a text that says why.
       COORDINATOR_NOT_AVAILABLE would be no response: clients take it for a state that passes, and
       ask again until their timeout expires, or for ever.
    C. An unknown kind of key is answered with INVALID_REQUEST.
Rights: DESCRIBE on the group.
Versions: 0 to 6; many keys in one request from version 4.
Left out: coordinators of transactions and of share groups.
Source: Kafka KafkaApis.handleFindCoordinatorRequest, KIP-699.
"""

from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.replication import NO_LEADER
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_GROUP, _TRANSACTION = 0, 1
_FIRST_VERSION_WITH_MANY_KEYS = 4
NOT_SERVED_TEXT = "not served by this broker"


class FindCoordinatorHandler(Handler):
    """Names coordinators."""

    api_key = ApiKey.FIND_COORDINATOR
    versions: tuple[int, int] = (0, 6)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        kind = request.body["key_type"]
        request.answer(_body(request, [self._one(request, kind, key) for key in _keys(request)]))

    def reject(self, request: Request, code: int) -> Body:  # a Handler's
        """Respond without a coordinator for any key."""
        return _body(request, [_nobody(key, code, None) for key in _keys(request)])

    def _one(self, request: Request, kind: int, key: str) -> dict[str, Any]:
        if kind == _TRANSACTION:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return _nobody(key, code, NOT_SERVED_TEXT)  # case B
        if kind != _GROUP:
            return _nobody(key, ErrorCode.INVALID_REQUEST, None)  # case C
        try:
            request.access.check("DESCRIBE", "group", key)
            partition = self._state.groups.partition_of(key)
        except Rejected as rejected:
            return _nobody(key, rejected.code, rejected.text)
        if partition.leader_id == NO_LEADER:
            return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)  # case A
        node = self._state.nodes[partition.leader_id]
        return {
            "key": key,
            "error_code": int(ErrorCode.NONE),
            "error_message": None,
            "node_id": node.node_id,
            "host": node.host,
            "port": node.port,
        }


def _keys(request: Request) -> list[str]:
    if request.api_version >= _FIRST_VERSION_WITH_MANY_KEYS:
        keys: list[str] = request.body["coordinator_keys"]
        return keys
    return [request.body["key"]]


def _nobody(key: str, code: int, text: str | None) -> dict[str, Any]:
    return {
        "key": key,
        "error_code": int(code),
        "error_message": text,
        "node_id": -1,
        "host": "",
        "port": -1,
    }


def _body(request: Request, answers: list[dict[str, Any]]) -> Body:
    if request.api_version >= _FIRST_VERSION_WITH_MANY_KEYS:
        return {"coordinators": answers}
    return {name: value for name, value in answers[0].items() if name != "key"}
