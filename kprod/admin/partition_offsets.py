"""Asks leaders for offsets of their logs, with an error for each partition that has none.

Unlike a consumer, which waits until all leaders have responded, it tells what can be known now: a
table of lags is wanted most when some leaders are missing.

Thread-safety: the client's thread.
Source: Kafka ListOffsetsHandler (clients 4.3.1); ListOffsetsRequest.json.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from kprod.consumer.offset_lookup import FoundOffset
from kprod.errors import KprodError, RemoteProtocolError, UnknownPartition
from kprod.model import TopicPartition
from kprod.network import topic_admin
from kprod.network.admin_client import AdminClient, Question
from kprod.network.topic_admin import PartitionState, TopicState
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode, error_for

Answer: TypeAlias = FoundOffset | KprodError
_VERSIONS = (1, 7)
_NO_REPLICA = -1
_ATTEMPTS_MAX = 5
_OFFSET_MAX = 2**63 - 1


def find_offsets(
    admin: AdminClient, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Answer]:
    """Ask the leaders of some partitions for offsets.

    Args:
        admin: A client of the cluster.
        wanted: A timestamp, or the constant of a log end, for each partition.

    Returns:
        An offset or an error for each partition, in the order of `wanted`.

    Raises:
        KprodError: No broker has told of the topics.
    """
    answers: dict[TopicPartition, Answer] = {}
    missing = dict(wanted)
    deadline_ms = admin.deadline_ms()
    for failures in range(_ATTEMPTS_MAX):
        answers |= _ask_once(admin, missing)
        missing = {key: at for key, at in missing.items() if _is_worth_another(answers[key])}
        if not missing or not admin.back_off(failures, deadline_ms):
            break
    return {key: answers[key] for key in wanted}


def partitions_of(admin: AdminClient, topics: Iterable[str]) -> dict[TopicPartition, None]:
    """Return the partitions of topics.

    Args:
        admin: A client of the cluster.
        topics: Topics that exist.

    Returns:
        The partitions, in order.

    Raises:
        UnknownTopic: A topic does not exist.
        KprodError: The cluster rejects the request, or it failed.
    """
    states = topic_admin.describe_topics(admin, list(dict.fromkeys(topics)))
    return {
        TopicPartition(state.name, it.partition): None
        for state in states
        for it in state.partitions
    }


def _is_worth_another(answer: Answer) -> bool:
    return isinstance(answer, KprodError) and answer.retriable


def _ask_once(
    admin: AdminClient, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Answer]:
    topics = topic_admin.find_topics(admin, list(dict.fromkeys(key.topic for key in wanted)))
    answers: dict[TopicPartition, Answer] = {}
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for key, at in wanted.items():
        found = _leader(topics[key.topic], key)
        if isinstance(found, KprodError):
            answers[key] = found
        else:
            by_leader.setdefault(found, {})[key] = at
    for leader_id, asked in by_leader.items():
        answers |= _ask_leader(admin, leader_id, asked)
    return answers


def _leader(topic: TopicState | KprodError, key: TopicPartition) -> int | KprodError:
    if isinstance(topic, KprodError):
        return topic
    by_number: dict[int, PartitionState] = {it.partition: it for it in topic.partitions}
    partition = by_number.get(key.partition)
    if partition is None:
        count = len(topic.partitions)
        return UnknownPartition(
            f"topic {key.topic!r} has partitions 0 to {count - 1}, not {key.partition}"
        )
    if partition.leader_id < 0:
        text = f"partition {key.partition} of topic {key.topic!r}"
        return error_for(ErrorCode.LEADER_NOT_AVAILABLE, text)
    return partition.leader_id


def _ask_leader(
    admin: AdminClient, leader_id: int, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Answer]:
    topics: dict[str, list[dict[str, int]]] = {}
    for key, at in asked.items():
        entry = {"partition_index": key.partition, "timestamp": at}
        topics.setdefault(key.topic, []).append(entry)
    body = {
        "replica_id": _NO_REPLICA,
        "topics": [{"name": name, "partitions": it} for name, it in topics.items()],
    }
    question = Question(ApiKey.LIST_OFFSETS, body, _VERSIONS, is_repeatable=True)
    try:
        response = admin.ask(question, leader_id)
    except KprodError as error:
        return dict.fromkeys(asked, error)
    answers: dict[TopicPartition, Answer] = {
        key: RemoteProtocolError(f"a ListOffsets response leaves out {key}") for key in asked
    }
    for topic in response["topics"]:
        for entry in topic["partitions"]:
            key = TopicPartition(topic["name"], entry["partition_index"])
            if key in asked:
                answers[key] = _answer(admin, key, entry)
    return answers


def _answer(admin: AdminClient, key: TopicPartition, entry: Mapping[str, Any]) -> Answer:
    code = entry["error_code"]
    if code != ErrorCode.NONE:
        text = f"the offset of topic {key.topic!r}, partition {key.partition}"
        return denial_or_error(code, "DESCRIBE", key.topic, principal=admin.principal, message=text)
    offset = entry["offset"]
    if not -1 <= offset < _OFFSET_MAX:
        return RemoteProtocolError(f"a ListOffsets response gives {key} the offset {offset}")
    return FoundOffset(offset, entry["timestamp"], entry["leader_epoch"])
