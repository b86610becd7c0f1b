"""DeleteTopics: deletes topics by name or, from version 6, by id.

Behaviour.
    A. Unknown names: UNKNOWN_TOPIC_OR_PARTITION; unknown ids: UNKNOWN_TOPIC_ID.
    B. Requests that wait for a deleted partition are answered at once, as for one that moved.
    C. A long request is handled in slices; topics that it deletes are gone one by one.
Rights: DELETE on the topic; the name of one that may not be described is not told.
Versions: 1 to 6.
Left out: a topic is gone at once; Kafka deletes it in the background.
Source: Kafka ReplicationControlManager.deleteTopics, KIP-516.
"""

import uuid
from collections.abc import Iterator
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.broker.work_slices import TOPIC_COST, run_in_slices
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_ZERO_ID = uuid.UUID(int=0)
_FIRST_VERSION_WITH_TOPIC_IDS = 6


class DeleteTopicsHandler(Handler):
    """Deletes topics."""

    api_key = ApiKey.DELETE_TOPICS
    versions: tuple[int, int] = (1, 6)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Delete the topics; respond when each is deleted or rejected."""
        answers: list[dict[str, Any]] = []
        run_in_slices(
            request,
            self._each(request, answers),
            lambda: request.answer({"responses": answers}),
            self._state.soon,
        )

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every topic."""
        return {"responses": [_answer(*wanted, code, None) for wanted in _wanted(request)]}

    def _each(self, request: Request, answers: list[dict[str, Any]]) -> Iterator[int]:
        """Case C: one topic at a time."""
        for name, topic_id in _wanted(request):
            before = self._state.topics.partition_count
            answers.append(self._deleted(request, name, topic_id))
            yield TOPIC_COST * (1 + before - self._state.topics.partition_count)

    def _deleted(self, request: Request, name: str | None, topic_id: uuid.UUID) -> dict[str, Any]:
        if name is None:
            topic = self._state.topics.get_by_id(topic_id)
            if topic is None:
                return _answer(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, None)
            if not request.access.may("DESCRIBE", "topic", topic.name):
                return _answer(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
            name = topic.name
        try:
            request.access.check("DELETE", "topic", name)
            self._state.delete_topic(name)
        except Rejected as rejected:
            return _answer(name, topic_id, rejected.code, rejected.text)
        return _answer(name, topic_id, ErrorCode.NONE, None)


def _wanted(request: Request) -> list[tuple[str | None, uuid.UUID]]:
    if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        return [(entry["name"], entry["topic_id"]) for entry in request.body["topics"]]
    return [(name, _ZERO_ID) for name in request.body["topic_names"]]


def _answer(name: str | None, topic_id: uuid.UUID, code: int, text: str | None) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "error_code": int(code), "error_message": text}
