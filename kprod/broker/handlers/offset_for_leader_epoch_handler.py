"""OffsetForLeaderEpoch: returns end offsets of leader epochs, so that clients detect lost records.

Behaviour.
    A. The newest epoch ends at the log's end. An older one ends where the next known one begins,
       and is told under the largest known epoch that is not above it. One below all known epochs
       ends where the first begins. One above all: −1 and −1, which is not an error.
    B. Unknown partition, other leader, the client's own leader epoch: as in Fetch.
Rights: DESCRIBE on the topic.
Versions: 2 to 4.
Left out: followers of other processes; a replica id changes nothing.
Source: Kafka ReplicaManager.lastOffsetForLeaderEpoch, KIP-320.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.fetch_handler import check_leader_epoch
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class OffsetForLeaderEpochHandler(Handler):
    """Finds where epochs end."""

    api_key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    versions: tuple[int, int] = (2, 4)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        topics = [
            {
                "topic": topic["topic"],
                "partitions": [
                    self._one(request, topic["topic"], entry) for entry in topic["partitions"]
                ],
            }
            for topic in request.body["topics"]
        ]
        request.answer({"topics": topics})

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every partition."""
        topics = [
            {
                "topic": topic["topic"],
                "partitions": [
                    {"partition": entry["partition"], "error_code": int(code)}
                    for entry in topic["partitions"]
                ],
            }
            for topic in request.body["topics"]
        ]
        return {"topics": topics}

    def _one(self, request: Request, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        try:
            request.access.check("DESCRIBE", "topic", name)
            partition = self._state.topics.led_partition(
                name, entry["partition"], request.node_id
            )  # case B
            check_leader_epoch(partition, entry["current_leader_epoch"])
        except Rejected as rejected:
            return {"partition": entry["partition"], "error_code": rejected.code}
        end = partition.log.epochs.end_of(entry["leader_epoch"], partition.log.log_end_offset)
        return {
            "partition": entry["partition"],
            "error_code": int(ErrorCode.NONE),
            "leader_epoch": end.epoch,
            "end_offset": end.end_offset,
        }
