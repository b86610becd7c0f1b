"""DeleteRecords: raises the start offsets of partitions.

Behaviour.
    A. An unknown partition: UNKNOWN_TOPIC_OR_PARTITION; another broker leads:
       NOT_LEADER_OR_FOLLOWER.
    B. A topic of Kafka's own: INVALID_TOPIC_EXCEPTION.
    C. `cleanup.policy` has `compact` and not `delete`: POLICY_VIOLATION.
    D. The offset is −1 for the high watermark; above it, or below −1: OFFSET_OUT_OF_RANGE.
    E. The records are gone for readers at once, their segments when retention comes to them. A
       batch that holds the new start is still read whole.
    F. The response waits until the followers begin there, too, as `delayed.delete` says, at most
       `timeout_ms`; it has the lowest offset that any replica has.
    G. A log whose new start cannot be written down: KAFKA_STORAGE_ERROR.
Rights: DELETE on the topic.
Versions: 0 to 2.
Left out: nothing.
Source: Kafka ReplicaManager.deleteRecords, KIP-107.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.delayed.delayed_delete import DelayedDelete, WaitingDelete
from kprod.broker.deleted_records import delete_records
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.broker.topic_checks import INTERNAL_TOPICS
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class DeleteRecordsHandler(Handler):
    """Raises the start of logs."""

    api_key = ApiKey.DELETE_RECORDS
    versions: tuple[int, int] = (0, 2)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Raise the start offsets; respond when every replica has followed."""
        waiting: list[WaitingDelete] = []
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    self._one(request, topic["name"], entry, waiting)
                    for entry in topic["partitions"]
                ],
            }
            for topic in request.body["topics"]
        ]
        operation = DelayedDelete(
            waiting,
            timeout_ms=request.body["timeout_ms"],
            finish=lambda: request.run(lambda: request.answer({"topics": topics})),
        )
        keys = [it.partition.name for it in waiting]
        self._state.waiting_deletes.try_complete_or_watch(operation, keys)

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every partition."""
        topics = [
            {
                "name": topic["name"],
                "partitions": [_answer(entry, code) for entry in topic["partitions"]],
            }
            for topic in request.body["topics"]
        ]
        return {"topics": topics}

    def _one(
        self, request: Request, name: str, entry: Mapping[str, Any], waiting: list[WaitingDelete]
    ) -> dict[str, Any]:
        answer = _answer(entry, ErrorCode.NONE)
        index = entry["partition_index"]
        try:
            request.access.check("DELETE", "topic", name)
            if name in INTERNAL_TOPICS:
                answer["error_code"] = int(ErrorCode.INVALID_TOPIC_EXCEPTION)  # case B
                return answer
            partition = self._state.topics.led_partition(name, index, request.node_id)  # case A
            offset = delete_records(partition, entry["offset"])  # cases C, D and G
        except Rejected as rejected:
            answer["error_code"] = rejected.code
        else:
            waiting.append(WaitingDelete(partition, request.node_id, offset, answer))
        return answer


def _answer(entry: Mapping[str, Any], code: int) -> dict[str, Any]:
    return {
        "partition_index": entry["partition_index"],
        "low_watermark": -1,
        "error_code": int(code),
    }
