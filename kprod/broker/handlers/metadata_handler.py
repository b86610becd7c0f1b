"""Metadata: the brokers, and the leaders of the requested topics.

Behaviour.
    A. No list of topics (version 0: an empty one) asks for all topics. One that is in the list
       twice is described once.
    B. An unknown topic is made when the cluster's `auto_create_topics` and, from version 4, the
       request allow it. The response says UNKNOWN_TOPIC_OR_PARTITION without partitions, as Kafka's
       does in every version; the client asks again and finds the topic. With `describe_new_topics`
       the topic is in the response that made it.
    C. An illegal name is answered with INVALID_TOPIC_EXCEPTION, an unknown one with
       UNKNOWN_TOPIC_OR_PARTITION, an unknown id with UNKNOWN_TOPIC_ID.
    D. A partition without a leader is answered with LEADER_NOT_AVAILABLE.
    E. A topic that `forget_topic` named is unknown here and nowhere else.
    F. One request makes 10,000 topics and partitions at most, and the cluster has `topics_max` and
       `partitions_max`: beyond them POLICY_VIOLATION, which ends the client's attempts.
    G. A topic that may not be described is TOPIC_AUTHORIZATION_FAILED, whether it is there or not,
       and is left out of all topics; so is one that may be described and would have to be made,
       and may not. By its id the response has no name.
Rights: DESCRIBE on the topic; CREATE on it or on the cluster to have it made.
Versions: 0 to 13.
Left out: authorized operations.
Source: Kafka KafkaApis.handleTopicMetadataRequest, KIP-516.
"""

import uuid
from typing import Any

from kprod.broker.cluster_state import CLUSTER_ID, ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.broker.rejection import Rejected
from kprod.broker.replication import NO_LEADER, Partition
from kprod.broker.request import Body, Request
from kprod.broker.topic import Topic
from kprod.broker.topic_checks import check_additions, check_name
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_ZERO_ID = uuid.UUID(int=0)
_FIRST_VERSION_WITH_CREATION_FLAG = 4


class MetadataHandler(Handler):
    """Describes brokers and topics."""

    api_key = ApiKey.METADATA
    versions: tuple[int, int] = (0, 13)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        wanted = request.body["topics"]
        if wanted is None or (request.api_version == 0 and not wanted):
            visible = (it for it in self._state.topics if _may_see(request, it.name))
            topics = [self._described(topic) for topic in visible]  # case A
        else:
            different = {(entry["name"], entry["topic_id"]): entry for entry in wanted}
            making = _Making(self._state, is_allowed=self._may_create(request))
            topics = [self._one(request, entry, making) for entry in different.values()]
        request.answer(self._answer(topics))

    def reject(self, request: Request, code: int) -> Body:
        """Respond with the brokers, and the error code for each topic."""
        wanted = request.body["topics"]
        if wanted is None:
            wanted = [{"name": topic.name, "topic_id": _ZERO_ID} for topic in self._state.topics]
        topics = [_rejected(entry["name"], entry["topic_id"], code) for entry in wanted]
        return {**self._answer(topics), "error_code": code}

    def _answer(self, topics: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "brokers": [
                {
                    "node_id": node.node_id,
                    "host": node.host,
                    "port": node.port,
                    "rack": node.rack,
                }
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

    def _one(self, request: Request, entry: dict[str, Any], making: "_Making") -> dict[str, Any]:
        name = entry["name"]
        if name is None:
            return self._by_id(request, entry["topic_id"])
        topic = self._state.topics.get(name)
        if name in self._state.forgotten_topics:
            return _rejected(name, _ZERO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # case E
        try:
            _check_access(request, name, is_there=topic is not None)  # case G
            if topic is not None:
                return self._described(topic)
            check_name(name)  # case C
            topic = making.make(name)  # case B
        except Rejected as rejected:
            return _rejected(name, _ZERO_ID, rejected.code)
        if topic is None or not self._state.config.describe_new_topics:
            return _rejected(name, _ZERO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._described(topic)

    def _by_id(self, request: Request, topic_id: uuid.UUID) -> dict[str, Any]:
        topic = self._state.topics.get_by_id(topic_id)
        if topic is None or topic.name in self._state.forgotten_topics:
            return _rejected(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)  # case C
        if not _may_see(request, topic.name):
            return _rejected(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._described(topic)

    def _described(self, topic: Topic) -> dict[str, Any]:
        if topic.name in self._state.forgotten_topics:
            return _rejected(topic.name, _ZERO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.name == OFFSETS_TOPIC,
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
                node_id
                for node_id in partition.replicas
                if partition.is_offline or not self._state.is_alive(node_id)
            ],
        }


def _may_see(request: Request, name: str) -> bool:
    return request.access.may("DESCRIBE", "topic", name)


def _check_access(request: Request, name: str, *, is_there: bool) -> None:
    request.access.check("DESCRIBE", "topic", name)
    if not is_there and not request.access.may("CREATE", "cluster"):
        request.access.check("CREATE", "topic", name)


class _Making:
    """Creates the topics of one request; case F."""

    __slots__ = ("_addition_count", "_is_allowed", "_state")

    def __init__(self, state: ClusterState, *, is_allowed: bool) -> None:
        self._state = state
        self._is_allowed = is_allowed
        self._addition_count = 0

    def make(self, name: str) -> Topic | None:
        if not self._is_allowed:
            return None
        addition_count = self._addition_count + 1 + self._state.config.default_partitions
        check_additions(addition_count)
        if name == OFFSETS_TOPIC:
            topic = self._state.groups.offsets_topic()
        else:
            topic = self._state.create_topic(name)
        self._addition_count = addition_count
        return topic


def _rejected(name: str | None, topic_id: uuid.UUID, code: int) -> dict[str, Any]:
    # Versions before 12 cannot represent a topic without a name.
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": []}
