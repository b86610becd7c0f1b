"""CreatePartitions: adds partitions to topics.

Behaviour.
    A. The new count must be above the present one: INVALID_PARTITIONS.
    B. `validate_only` checks and makes nothing.
    C. An assignment of replicas has an entry for each new partition, with as many different
       brokers as the topic has replicas: else INVALID_REPLICA_ASSIGNMENT.
    D. A name twice in one request: INVALID_REQUEST, once.
    E. More than 10,000 partitions in one request: POLICY_VIOLATION for every topic, where Kafka
       answers UNKNOWN_SERVER_ERROR; more than the cluster may have (`partitions_max`): for the
       topic.
Rights: ALTER on the topic.
Versions: 0 to 3.
Left out: nothing.
Source: Kafka ReplicationControlManager.createPartitions, KIP-195.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.broker.topic_checks import check_additions
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class CreatePartitionsHandler(Handler):
    """Adds partitions."""

    api_key = ApiKey.CREATE_PARTITIONS
    versions: tuple[int, int] = (0, 3)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        counts = Counter(entry["name"] for entry in request.body["topics"])
        entries = {entry["name"]: entry for entry in request.body["topics"]}
        try:
            check_additions(sum(map(self._additions, entries.values())))
        except Rejected as rejected:
            results = [_answer(it, rejected.code, rejected.text) for it in entries.values()]
            request.answer({"results": results})  # case E
            return
        request.answer(
            {"results": [self._one(request, it, counts[name]) for name, it in entries.items()]}
        )

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every topic."""
        return {"results": [_answer(entry, code, None) for entry in request.body["topics"]]}

    def _additions(self, entry: Mapping[str, Any]) -> int:
        topic = self._state.topics.get(entry["name"])
        return 0 if topic is None else max(entry["count"] - topic.partition_count, 0)

    def _one(self, request: Request, entry: Mapping[str, Any], count: int) -> dict[str, Any]:
        if count > 1:
            text = "the name is twice in the request"
            return _answer(entry, ErrorCode.INVALID_REQUEST, text)  # case D
        assignments = entry["assignments"]
        try:
            request.access.check("ALTER", "topic", entry["name"])
            self._state.topics.grow(
                entry["name"],
                entry["count"],
                assignment=None if assignments is None else _assigned(assignments),
                dry_run=request.body["validate_only"],
            )
        except Rejected as rejected:
            return _answer(entry, rejected.code, rejected.text)
        return _answer(entry, ErrorCode.NONE, None)


def _assigned(assignments: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    return [list(it["broker_ids"]) for it in assignments]


def _answer(entry: Mapping[str, Any], code: int, text: str | None) -> dict[str, Any]:
    return {"name": entry["name"], "error_code": int(code), "error_message": text}
