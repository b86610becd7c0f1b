"""OffsetDelete: deletes offsets of a group.

Behaviour.
    A. Topic or partition unknown: UNKNOWN_TOPIC_OR_PARTITION for it.
    B. Group unknown: GROUP_ID_NOT_FOUND; it has members that are not consumers: NON_EMPTY_GROUP.
    C. A member wants the topic: GROUP_SUBSCRIBED_TO_TOPIC for its partitions.
    D. There is nothing to forget: no error.
    E. More tombstones than a batch has room for are written as several, as in DeleteGroups.
Rights: DELETE on the group, READ on the topic.
Versions: 0.
Source: Kafka KafkaApis.handleOffsetDeleteRequest, OffsetMetadataManager.deleteOffsets; KIP-496.
"""

from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.committing import check_offset_delete, delete_offsets
from kprod.broker.group.records import OffsetKey
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class OffsetDeleteHandler(Handler):
    """Deletes offsets."""

    api_key = ApiKey.OFFSET_DELETE
    versions: tuple[int, int] = (0, 0)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately, or when the tombstones are replicated."""
        group_id = request.body["group_id"]
        if not request.access.may("DELETE", "group", group_id):
            request.answer(self.reject(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        topics, wanted = self._topics(request)
        try:
            shard = self._state.groups.shard(request.node_id, group_id)
            group = check_offset_delete(shard, group_id)
        except Rejected as rejected:
            request.answer(self.reject(request, rejected.code))  # case B
            return
        keys = []
        for topic, answer in wanted:
            if group.is_subscribed(topic):
                answer["error_code"] = int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)  # case C
            else:
                keys.append(OffsetKey(group_id, topic, answer["partition_index"]))

        def finish(code: int) -> None:
            if code == ErrorCode.NONE:
                request.answer({"error_code": int(code), "topics": topics})
            else:
                request.answer(self.reject(request, code))

        delete_offsets(shard, keys, lambda code: request.run(lambda: finish(code)))

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond with the error code, without partitions."""
        return {"error_code": int(code), "topics": []}

    def _topics(
        self, request: Request
    ) -> tuple[list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]:
        """Build the response with case A filled in; returns it and the existing partitions."""
        topics, wanted = [], []
        for entry in request.body["topics"]:
            answers = []
            for partition in entry["partitions"]:
                index = partition["partition_index"]
                is_known = self._state.topics.partition(entry["name"], index) is not None
                code = ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not request.access.may("READ", "topic", entry["name"]):
                    is_known, code = False, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                answers.append({"partition_index": index, "error_code": int(code)})
                if is_known:
                    wanted.append((entry["name"], answers[-1]))
            topics.append({"name": entry["name"], "partitions": answers})
        return topics, wanted
