"""FindCoordinator: which broker coordinates a group or a transaction.

Behaviour.
    A. A group has no coordinator: GROUP_AUTHORIZATION_FAILED, with a text that says why.
    B. Nor has a transaction: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, with the same text.
    C. An unknown kind of key is answered with INVALID_REQUEST.
COORDINATOR_NOT_AVAILABLE would be no answer: clients take it for a state that passes, and ask again
until their time is over, or for ever. Of the codes that end their attempts these two fit best.
Versions: 0 to 6; many keys in one request from version 4.
Left out: the coordinators.
Source: Kafka KafkaApis.handleFindCoordinatorRequest, KIP-699.
"""

from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_GROUP, _TRANSACTION = 0, 1
_FIRST_VERSION_WITH_MANY_KEYS = 4
NOT_SERVED_TEXT = "not served by this broker"
_CODES = {
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,  # case A
    _TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # case B
}


class FindCoordinatorHandler(Handler):
    """Names coordinators."""

    api_key = ApiKey.FIND_COORDINATOR
    versions = (0, 6)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""

    def handle(self, request: Request) -> None:
        """Answer at once."""
        code = _CODES.get(request.body["key_type"], ErrorCode.INVALID_REQUEST)  # case C
        text = NOT_SERVED_TEXT if code != ErrorCode.INVALID_REQUEST else None
        request.answer(_body(request, [_nobody(key, code, text) for key in _keys(request)]))

    def reject(self, request: Request, code: int) -> Body:  # a Handler's
        """No coordinator for any key."""
        return _body(request, [_nobody(key, code, None) for key in _keys(request)])


def _keys(request: Request) -> list[str]:
    if request.api_version >= _FIRST_VERSION_WITH_MANY_KEYS:
        keys: list[str] = request.body["coordinator_keys"]
        return keys
    return [request.body["key"]]


def _nobody(key: str, code: int, text: str | None) -> dict[str, Any]:
    return {
        "key": key,
        "error_code": code,
        "error_message": text,
        "node_id": -1,
        "host": "",
        "port": -1,
    }


def _body(request: Request, answers: list[dict[str, Any]]) -> Body:
    if request.api_version >= _FIRST_VERSION_WITH_MANY_KEYS:
        return {"coordinators": answers}
    return {name: value for name, value in answers[0].items() if name != "key"}
