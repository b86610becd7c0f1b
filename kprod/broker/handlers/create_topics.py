"""CreateTopics: make topics, each for itself.

Behaviour.
    A. Any broker makes topics; Kafka's controller rule shows nowhere.
    B. −1 partitions or replicas take the cluster's defaults.
    C. An assignment of replicas must be for partitions 0 to n−1, all alike in size, and excludes
       the two numbers: else INVALID_REPLICA_ASSIGNMENT or INVALID_REQUEST.
    D. A name twice in one request: INVALID_REQUEST for both.
    E. A setting that Kafka does not have, or a value that cannot be read or is out of bounds:
       INVALID_CONFIG. Settings of Kafka's that mean nothing here are accepted, whatever the value.
    F. `validate_only` checks and makes nothing.
Versions: 2 to 7.
Left out: the made topic's settings in the answer, and its numbers and id when only checked.
Source: Kafka ReplicationControlManager.createTopics.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kprod.broker.handlers.handler import Handler
from kprod.broker.refusal import Refused
from kprod.broker.request import Body, Request
from kprod.broker.state import ClusterState
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_WITH_NUMBERS = 5
_FIRST_VERSION_WITH_TOPIC_IDS = 7


class CreateTopicsHandler(Handler):
    """Makes topics."""

    api_key = ApiKey.CREATE_TOPICS
    versions = (2, 7)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Answer at once."""
        entries = request.body["topics"]
        repeated = {
            name for name, count in Counter(it["name"] for it in entries).items() if count > 1
        }
        topics = []
        for entry in entries:
            if entry["name"] in repeated:
                text = "the name is twice in the request"
                topics.append(_refused(entry, ErrorCode.INVALID_REQUEST, text))  # case D
                continue
            try:
                topics.append(self._made(request, entry))
            except Refused as refused:
                topics.append(_refused(entry, refused.code, refused.text))
            except ConfigError as error:
                topics.append(_refused(entry, ErrorCode.INVALID_CONFIG, str(error)))  # case E
        request.answer({"topics": topics})

    def refuse(self, request: Request, code: int) -> Body:  # a Handler's
        """The code for every topic."""
        return {"topics": [_refused(entry, code, None) for entry in request.body["topics"]]}

    def _made(self, request: Request, entry: Mapping[str, Any]) -> dict[str, Any]:
        topic = self._state.create_topic(
            entry["name"],
            partition_count=entry["num_partitions"],
            replication_factor=entry["replication_factor"],
            overrides={it["name"]: it["value"] for it in entry["configs"]},
            assignment=_assignment(entry),
            dry_run=request.body["validate_only"],
        )
        answer = _refused(entry, ErrorCode.NONE, None)
        if topic is not None and request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            answer["topic_id"] = topic.topic_id
        if topic is not None and request.api_version >= _FIRST_VERSION_WITH_NUMBERS:
            answer["num_partitions"] = len(topic.partitions)
            answer["replication_factor"] = topic.replication_factor
        return answer


def _assignment(entry: Mapping[str, Any]) -> list[list[int]] | None:
    assignments = entry["assignments"]
    if not assignments:
        return None
    if entry["num_partitions"] != -1 or entry["replication_factor"] != -1:
        message = "an assignment excludes partition count and replication factor"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    nodes = {it["partition_index"]: list(it["broker_ids"]) for it in assignments}
    if sorted(nodes) != list(range(len(assignments))):
        message = f"partitions {sorted(nodes)} are not 0 to {len(assignments) - 1}"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [nodes[index] for index in range(len(nodes))]


def _refused(entry: Mapping[str, Any], code: int, text: str | None) -> dict[str, Any]:
    return {"name": entry["name"], "error_code": int(code), "error_message": text}
