"""FindCoordinator: which broker coordinates a group or a transaction.

Behaviour.
    A. A group's coordinator is chosen among the brokers that run, by a checksum of its name.
    B. A transaction has none: COORDINATOR_NOT_AVAILABLE.
    C. An unknown kind of key is answered with INVALID_REQUEST.
Versions: 0 to 6; many keys in one request from version 4.
Left out: the coordinators themselves.
Source: Kafka KafkaApis.handleFindCoordinatorRequest, KIP-699.
"""

import zlib
from typing import Any

from kprod.broker.handlers.handler import Handler
from kprod.broker.request import Body, Request
from kprod.broker.state import ClusterState
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_GROUP, _TRANSACTION = 0, 1
_FIRST_VERSION_WITH_MANY_KEYS = 4


class FindCoordinatorHandler(Handler):
    """Names coordinators."""

    api_key = ApiKey.FIND_COORDINATOR
    versions = (0, 6)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Answer at once."""
        kind = request.body["key_type"]
        answers = [self._one(key, kind) for key in _keys(request)]
        request.answer(_body(request, answers))

    def refuse(self, request: Request, code: int) -> Body:  # a Handler's
        """No coordinator for any key."""
        return _body(request, [_nobody(key, code) for key in _keys(request)])

    def _one(self, key: str, kind: int) -> dict[str, Any]:
        if kind == _TRANSACTION:
            return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)  # case B
        if kind != _GROUP:
            return _nobody(key, ErrorCode.INVALID_REQUEST)  # case C
        nodes = self._state.alive_nodes
        node = nodes[zlib.crc32(key.encode()) % len(nodes)]
        return {
            "key": key,
            "error_code": ErrorCode.NONE,
            "node_id": node.node_id,
            "host": node.host,
            "port": node.port,
        }


def _keys(request: Request) -> list[str]:
    if request.api_version >= _FIRST_VERSION_WITH_MANY_KEYS:
        keys: list[str] = request.body["coordinator_keys"]
        return keys
    return [request.body["key"]]


def _nobody(key: str, code: int) -> dict[str, Any]:
    return {"key": key, "error_code": code, "node_id": -1, "host": "", "port": -1}


def _body(request: Request, answers: list[dict[str, Any]]) -> Body:
    if request.api_version >= _FIRST_VERSION_WITH_MANY_KEYS:
        return {"coordinators": answers}
    return {name: value for name, value in answers[0].items() if name != "key"}
