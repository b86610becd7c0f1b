"""Metadata: the brokers, and the leaders of the topics that are asked for.

Behaviour.
    A. No list of topics (version 0: an empty one) asks for all topics. One that is in the list
       twice is described once.
    B. An unknown topic is made when the cluster's `auto_create_topics` and, from version 4, the
       request allow it. It is in the same answer, complete; Kafka answers
       UNKNOWN_TOPIC_OR_PARTITION once and the client asks again.
    C. An illegal name is answered with INVALID_TOPIC_EXCEPTION, an unknown one with
       UNKNOWN_TOPIC_OR_PARTITION, an unknown id with UNKNOWN_TOPIC_ID.
    D. A partition without a leader is answered with LEADER_NOT_AVAILABLE.
    E. A topic that `forget_topic` named is unknown here and nowhere else.
Versions: 0 to 13.
Left out: authorized operations, racks.
Source: Kafka KafkaApis.handleTopicMetadataRequest, KIP-516.
"""

import uuid
from typing import Any

from kprod.broker.handlers.handler import Handler
from kprod.broker.refusal import Refused
from kprod.broker.replication import NO_LEADER, Partition
from kprod.broker.request import Body, Request
from kprod.broker.state import CLUSTER_ID, ClusterState
from kprod.broker.topics import Topic
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_ZERO_ID = uuid.UUID(int=0)
_FIRST_VERSION_WITH_CREATION_FLAG = 4


class MetadataHandler(Handler):
    """Describes brokers and topics."""

    api_key = ApiKey.METADATA
    versions = (0, 13)
    advertised = versions

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Answer at once."""
        wanted = request.body["topics"]
        if wanted is None or (request.api_version == 0 and not wanted):
            topics = [self._described(topic) for topic in self._state.topics]  # case A
        else:
            may_create = self._may_create(request)
            different = {(entry["name"], entry["topic_id"]): entry for entry in wanted}
            topics = [self._one(entry, may_create=may_create) for entry in different.values()]
        request.answer(self._answer(topics))

    def refuse(self, request: Request, code: int) -> Body:
        """The brokers, and the code for each topic."""
        wanted = request.body["topics"]
        if wanted is None:
            wanted = [{"name": topic.name, "topic_id": _ZERO_ID} for topic in self._state.topics]
        topics = [_refused(entry["name"], entry["topic_id"], code) for entry in wanted]
        return {**self._answer(topics), "error_code": code}

    def _answer(self, topics: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "brokers": [
                {"node_id": node.node_id, "host": node.host, "port": node.port}
                for node in self._state.alive_nodes
            ],
            "cluster_id": CLUSTER_ID,
            "controller_id": self._state.controller_id,
            "topics": topics,
        }

    def _may_create(self, request: Request) -> bool:
        asked = request.body["allow_auto_topic_creation"]
        if request.api_version < _FIRST_VERSION_WITH_CREATION_FLAG:
            asked = True
        return self._state.config.auto_create_topics and bool(asked)

    def _one(self, entry: dict[str, Any], *, may_create: bool) -> dict[str, Any]:
        name, topic_id = entry["name"], entry["topic_id"]
        if name is None:
            topic = self._state.topics.get_by_id(topic_id)
            if topic is None or topic.name in self._state.forgotten_topics:
                return _refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)  # case C
            return self._described(topic)
        topic = self._state.topics.get(name)
        if name in self._state.forgotten_topics:
            return _refused(name, _ZERO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # case E
        try:
            if topic is None and may_create:
                topic = self._state.create_topic(name)  # case B
        except Refused as refused:
            return _refused(name, _ZERO_ID, refused.code)
        if topic is None:
            return _refused(name, _ZERO_ID, self._why_unknown(name))
        return self._described(topic)

    def _why_unknown(self, name: str) -> int:
        try:
            self._state.create_topic(name, dry_run=True)
        except Refused as refused:
            if refused.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                return refused.code
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _described(self, topic: Topic) -> dict[str, Any]:
        if topic.name in self._state.forgotten_topics:
            return _refused(topic.name, _ZERO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [self._partition(it) for it in topic.partitions],
        }

    def _partition(self, partition: Partition) -> dict[str, Any]:
        leaderless = partition.leader_id == NO_LEADER
        return {
            "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.NONE,
            "partition_index": partition.name.partition,
            "leader_id": partition.leader_id,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": list(partition.replicas),
            "isr_nodes": partition.isr,
            "offline_replicas": [
                node_id for node_id in partition.replicas if not self._state.is_alive(node_id)
            ],
        }


def _refused(name: str | None, topic_id: uuid.UUID, code: int) -> dict[str, Any]:
    # Versions before 12 have no place for a topic without a name.
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": []}
