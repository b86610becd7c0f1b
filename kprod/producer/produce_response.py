# cython: annotation_typing=False, nonecheck=True
"""Reads Produce responses, and says for each error code whether the batch may be in the log.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A response is matched with batches by topic and partition, never by position.

Thread-safety: pure functions.
Source: Kafka's ProduceResponse definition (kafka-clients 4.3.1), KIP-467 for records at fault,
KIP-516 for topic ids, KIP-951 for leader hints; kprod's departure 18.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kprod.cluster.snapshot import NO_TOPIC_ID, LeaderHint
from kprod.errors import BrokerError, KprodError
from kprod.model import Node
from kprod.producer.batch import ProducerBatch
from kprod.protocol.error_table import ErrorCode, error_for

MAYBE_PERSISTED_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Codes after which the batch may nevertheless be in the log (departure 18; KAFKA-13574)."""

TAKEN_CODES = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
"""Error codes that say that the batch is in the log."""

FATAL_CODES = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Error codes after which an idempotent producer cannot continue."""

SEQUENCE_CODES = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
KNOWN_CODES = frozenset(ErrorCode)
PRODUCE_VERSION_BY_ID = 13  # the first that names topics by id (KIP-516)

Answers = Mapping[tuple[str | None, int], Mapping[str, Any]]
"""The entries of a response, by topic and partition."""


Acknowledgements = Mapping[tuple[str | None, int], tuple[int, int]]
"""Base offset and log append time, by topic and partition, of a response that accepts every batch.
"""

Replies = Answers | Acknowledgements


def named_acknowledgements(
    listed: Sequence[tuple[Any, int, int, int]],
    topic_names: Mapping[int, str],
    version: int,
) -> Acknowledgements:
    """Index the acknowledgements by topic and partition.

    Args:
        listed: The result of `read_acknowledgements`.
        topic_names: Topic name by topic id; the ids are integers (`UUID.int`).
        version: The response's version.

    Returns:
        The acknowledgements.
    """
    if version >= PRODUCE_VERSION_BY_ID:
        return {(topic_names.get(topic), at): (offset, ms) for topic, at, offset, ms in listed}
    return {(topic, at): (offset, ms) for topic, at, offset, ms in listed}


def read_responses(
    body: Mapping[str, Any], topic_names: Mapping[int, str], version: int
) -> tuple[Answers, bool]:
    """Index the entries of a response by topic and partition.

    Args:
        body: A decoded Produce response.
        topic_names: Topic name by topic id; the ids are integers (`UUID.int`).
        version: The response's version; from `PRODUCE_VERSION_BY_ID` on it identifies topics by id.

    Returns:
        The entries, and whether any of them is an error.
    """
    by_id = version >= PRODUCE_VERSION_BY_ID
    answers: dict[tuple[str | None, int], Mapping[str, Any]] = {}
    names_errors = False
    for topic in body["responses"]:
        name = topic_names.get(topic["topic_id"].int) if by_id else topic["name"]
        for answer in topic["partition_responses"]:
            answers[name, answer["index"]] = answer
            if answer["error_code"]:
                names_errors = True
    return answers, names_errors


def leader_hints(
    answers: Answers, topic_names: Mapping[int, str], version: int
) -> list[LeaderHint]:
    """Return the new leaders of rejected partitions, as far as the response has them.

    Args:
        answers: Entries by topic and partition.
        topic_names: As for `read_responses`.
        version: The response's version.

    Returns:
        The hints; usually none.
    """
    by_id = version >= PRODUCE_VERSION_BY_ID
    ids = {name: UUID(int=number) for number, name in topic_names.items()} if by_id else {}
    return [
        LeaderHint(
            topic, index, leader["leader_id"], leader["leader_epoch"], ids.get(topic, NO_TOPIC_ID)
        )
        for (topic, index), answer in answers.items()
        if topic is not None
        and answer["error_code"]
        and (leader := answer.get("current_leader"))
        and leader["leader_id"] >= 0
        and leader["leader_epoch"] >= 0
    ]


def nodes_named(body: Mapping[str, Any]) -> list[Node]:
    """Return the addresses of the leaders that a response names.

    Args:
        body: A Produce response.

    Returns:
        The nodes with a valid address.
    """
    endpoints = body.get("node_endpoints") or ()
    nodes = [Node(n["node_id"], n["host"], n["port"], n["rack"]) for n in endpoints]
    return [node for node in nodes if node.is_sound]


def leaves_open(code: int) -> bool:
    """Whether a batch may be in the log in spite of an error.

    An unknown code of a newer broker counts as UNKNOWN_SERVER_ERROR.

    Args:
        code: Error code of the response.

    Returns:
        True if the batch may be in the log.
    """
    return code in MAYBE_PERSISTED_CODES or code not in KNOWN_CODES


def record_errors(
    error: BrokerError, answer: Mapping[str, Any], record_count: int
) -> dict[int, KprodError] | None:
    """Return the errors of the records that the broker names (KIP-467).

    A single named record gets the batch's code. If several are named, the code may not apply to
    each, so they get INVALID_RECORD.

    Args:
        error: The batch's error.
        answer: The partition's entry in the response.
        record_count: Number of records of the batch; errors for other indexes are ignored.

    Returns:
        Errors by record index; None if the broker names none.
    """
    listed = [
        entry
        for entry in answer.get("record_errors") or ()
        if 0 <= entry["batch_index"] < record_count
    ]
    code = error.code if len(listed) == 1 else ErrorCode.INVALID_RECORD
    return {
        entry["batch_index"]: error_for(code, entry["batch_index_error_message"] or str(error))
        for entry in listed
    } or None


def companions_error(error: BrokerError, named: Mapping[int, KprodError]) -> BrokerError:
    """Create the error of the valid records in a rejected batch.

    Args:
        error: The batch's error.
        named: Errors of the invalid records, by index.

    Returns:
        A retriable error: sent without the invalid ones, the records may be accepted.
    """
    text = (
        f"nothing is wrong with this record, but its batch was rejected ({error.name}) for"
        f" {len(named)} others, and a batch is written whole or not at all; send it again"
    )
    companions = error_for(ErrorCode.INVALID_RECORD, text)
    companions.retriable = True
    return companions


def append_time_ms(batch: ProducerBatch, log_append_time_ms: int) -> int:
    """Return the log append time of a batch.

    Args:
        batch: The batch of the response.
        log_append_time_ms: The log append time in the response.

    Returns:
        Milliseconds since 1970; −1 if the records keep their own timestamps.
    """
    # For a duplicate the broker returns the batch's largest timestamp, whether client or broker set
    # it (Kafka UnifiedLog.append): after a retry the field says nothing.
    if batch.attempts > 1 and log_append_time_ms == batch.builder.max_timestamp_ms:
        return -1
    return log_append_time_ms
