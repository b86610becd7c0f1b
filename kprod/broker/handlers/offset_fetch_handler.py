"""OffsetFetch: returns the committed offsets of groups.

Behaviour.
    A. An offset that was never committed is −1 without an error, also of an unknown group; when all
       offsets are asked for, an unknown group has none.
    B. `require_stable` and an open transaction has an offset: UNSTABLE_OFFSET_COMMIT.
    C. An unknown topic id, from version 10 on: UNKNOWN_TOPIC_ID for its partitions.
    D. Another coordinator, or one that is loading: told for the group; before version 2 for each
       partition.
Rights: DESCRIBE on the group and on the topic; topics without it are not told of when all are asked
    for.
Versions: 1 to 10; many groups in one request from version 8.
Left out: version 0, which read from ZooKeeper.
Source: Kafka KafkaApis.handleOffsetFetchRequest, OffsetMetadataManager.fetchOffsets; KIP-709.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_WITH_GROUPS = 8
_FIRST_VERSION_WITH_TOPIC_IDS = 10
_FIRST_VERSION_WITH_GROUP_ERROR = 2
_ZERO_ID = uuid.UUID(int=0)


class OffsetFetchHandler(Handler):
    """Reads offsets."""

    api_key = ApiKey.OFFSET_FETCH
    versions: tuple[int, int] = (1, 10)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        if request.api_version >= _FIRST_VERSION_WITH_GROUPS:
            groups = [self._group(request, it) for it in request.body["groups"]]
            request.answer({"groups": groups})
        else:
            request.answer(_single(request, self._group(request, request.body)))

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every group."""
        if request.api_version >= _FIRST_VERSION_WITH_GROUPS:
            return {"groups": [_rejected(it, code) for it in request.body["groups"]]}
        return _single(request, _rejected(request.body, code))

    def _group(self, request: Request, wanted: Mapping[str, Any]) -> dict[str, Any]:
        group_id = wanted["group_id"]
        try:
            request.access.check("DESCRIBE", "group", group_id)
            shard = self._state.groups.shard(request.node_id, group_id)
        except Rejected as rejected:
            return _rejected(wanted, rejected.code)  # case D
        if wanted["topics"] is None:
            topics = self._all(request, shard, group_id)
        else:
            topics = [self._topic(request, shard, group_id, it) for it in wanted["topics"]]
        return {"group_id": group_id, "topics": topics, "error_code": int(ErrorCode.NONE)}

    def _all(
        self, request: Request, shard: CoordinatorShard, group_id: str
    ) -> list[dict[str, Any]]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in shard.offsets.of_group(group_id):
            if request.access.may("DESCRIBE", "topic", topic):
                by_topic.setdefault(topic, []).append(partition)
        return [
            self._answer(request, shard, (group_id, topic, self._topic_id(topic)), partitions)
            for topic, partitions in by_topic.items()
        ]

    def _topic_id(self, name: str) -> uuid.UUID:
        topic = self._state.topics.get(name)
        return _ZERO_ID if topic is None else topic.topic_id

    def _topic(
        self, request: Request, shard: CoordinatorShard, group_id: str, wanted: Mapping[str, Any]
    ) -> dict[str, Any]:
        name, topic_id = wanted["name"], wanted.get("topic_id", _ZERO_ID)
        if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            topic = self._state.topics.get_by_id(topic_id)
            if topic is None:
                return _topic_rejected(wanted, ErrorCode.UNKNOWN_TOPIC_ID)  # case C
            name = topic.name
        if not request.access.may("DESCRIBE", "topic", name):
            return _topic_rejected(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._answer(request, shard, (group_id, name, topic_id), wanted["partition_indexes"])

    def _answer(
        self,
        request: Request,
        shard: CoordinatorShard,
        place: tuple[str, str, uuid.UUID],
        partitions: list[int],
    ) -> dict[str, Any]:
        group_id, topic, topic_id = place
        is_strict = bool(request.body["require_stable"])
        answers = []
        for index in partitions:
            known = shard.offsets.get(group_id, topic, index)
            if is_strict and shard.offsets.has_pending(group_id, (topic, index)):
                answers.append(_none(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))  # case B
            elif known is None:
                answers.append(_none(index, ErrorCode.NONE))  # case A
            else:
                answers.append(
                    {
                        "partition_index": index,
                        "committed_offset": known.offset,
                        "committed_leader_epoch": known.leader_epoch,
                        "metadata": known.metadata,
                        "error_code": int(ErrorCode.NONE),
                    }
                )
        return {"name": topic, "topic_id": topic_id, "partitions": answers}


def _none(index: int, code: int) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": int(code),
    }


def _topic_rejected(wanted: Mapping[str, Any], code: int) -> dict[str, Any]:
    return {
        "name": wanted["name"],
        "topic_id": wanted.get("topic_id", _ZERO_ID),
        "partitions": [_none(index, code) for index in wanted["partition_indexes"]],
    }


def _rejected(wanted: Mapping[str, Any], code: int) -> dict[str, Any]:
    topics = [_topic_rejected(it, code) for it in wanted["topics"] or ()]
    return {"group_id": wanted["group_id"], "topics": topics, "error_code": int(code)}


def _single(request: Request, group: dict[str, Any]) -> Body:
    """Convert to the response of versions with one group."""
    if not group["error_code"]:
        topics = group["topics"]
    elif request.api_version < _FIRST_VERSION_WITH_GROUP_ERROR:
        topics = group["topics"]  # case D
    else:
        topics = []
    kept = [{"name": it["name"], "partitions": it["partitions"]} for it in topics]
    return {"topics": kept, "error_code": group["error_code"]}
