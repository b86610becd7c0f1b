"""CreatePartitions: let topics grow.

Behaviour.
    A. The new count must be above the present one: INVALID_PARTITIONS.
    B. `validate_only` checks and makes nothing.
    C. An assignment of replicas: INVALID_REQUEST.
Versions: 0 to 3.
Left out: assignments.
Source: Kafka ReplicationControlManager.createPartitions, KIP-195.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.handlers.handler import Handler
from kprod.broker.refusal import Refused
from kprod.broker.request import Body, Request
from kprod.broker.state import ClusterState
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class CreatePartitionsHandler(Handler):
    """Adds partitions."""

    api_key = ApiKey.CREATE_PARTITIONS
    versions = (0, 3)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Answer at once."""
        dry_run = request.body["validate_only"]
        request.answer(
            {"results": [self._grown(entry, dry_run=dry_run) for entry in request.body["topics"]]}
        )

    def refuse(self, request: Request, code: int) -> Body:
        """The code for every topic."""
        return {"results": [_answer(entry, code, None) for entry in request.body["topics"]]}

    def _grown(self, entry: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
        if entry["assignments"]:
            text = "assignments are not served"
            return _answer(entry, ErrorCode.INVALID_REQUEST, text)  # case C
        try:
            self._state.topics.grow(entry["name"], entry["count"], dry_run=dry_run)
        except Refused as refused:
            return _answer(entry, refused.code, refused.text)
        return _answer(entry, ErrorCode.NONE, None)


def _answer(entry: Mapping[str, Any], code: int, text: str | None) -> dict[str, Any]:
    return {"name": entry["name"], "error_code": int(code), "error_message": text}
