"""Queries leaders for offsets: the log start, the log end, or the first record at or after a time.

Queries are batched by leader, with one request to each leader in flight. A failed query is retried
after a back-off, at the leader that metadata names then, until it is withdrawn.

Thread-safety: the I/O thread.
Source: Kafka OffsetFetcher (clients 4.3.1); ListOffsetsRequest.json.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.consumer.leader_questions import LeaderQuestions
from kprod.errors import KprodError, RemoteProtocolError
from kprod.model import Node, TopicPartition
from kprod.network.client import NetworkClient
from kprod.network.client_request import ANSWER_BYTES, ClientRequest, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
OFFSET_MAX = 2**63 - 1

_VERSIONS = (1, 11)  # older responses have a list of segments
_COMMITTED_VERSIONS = (2, 11)  # the first version with an isolation level
_PARTITION_BYTES = 1_024
_NO_REPLICA = -1
_NO_RECORD = -1  # no record is at or after the time


class FoundOffset(NamedTuple):
    """An offset from a leader's response.

    Attributes:
        offset: The offset; −1 if no record is at or after the time.
        timestamp_ms: The record's timestamp; −1 for a log end.
        leader_epoch: The record's leader epoch; −1 if the response has none.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


class OffsetQuestion:
    """A query for one partition.

    Attributes:
        key: The partition.
        timestamp: Milliseconds since 1970, or `EARLIEST_TIMESTAMP` or `LATEST_TIMESTAMP`.
        on_found: Called once, with the offset; again if it raises an exception.
        on_error: Called with each failure that may not be retriable; the query remains.
        retry_at_ms: Earliest time of the next attempt, monotonic.
        failures: Number of consecutive failed attempts.
        error: The newest failure.
    """

    __slots__ = ("error", "failures", "key", "on_error", "on_found", "retry_at_ms", "timestamp")

    def __init__(
        self,
        key: TopicPartition,
        timestamp: int,
        on_found: Callable[[FoundOffset], object],
        on_error: Callable[[KprodError], object],
    ) -> None:
        """Create a query that was not sent yet."""
        self.key: TopicPartition = key
        self.timestamp: int = timestamp
        self.on_found: Callable[[FoundOffset], object] = on_found
        self.on_error: Callable[[KprodError], object] = on_error
        self.retry_at_ms: int = 0
        self.failures: int = 0
        self.error: KprodError | None = None


class OffsetLookup:
    """All offset queries of one consumer."""

    def __init__(
        self,
        client: NetworkClient,
        metadata: Metadata,
        *,
        backoff: ExponentialBackoff,
        rng: random.Random,
        reads_committed: bool,
        timeout_ms: int,
    ) -> None:
        """Start with no queries.

        Args:
            client: Sends the requests.
            metadata: Provides the leaders.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
            reads_committed: Whether the log end is the last stable offset.
            timeout_ms: Request timeout; the newest versions send it to the broker.
        """
        self._client = client
        self._metadata = metadata
        self._reads_committed = reads_committed
        self._timeout_ms = timeout_ms
        self._questions: LeaderQuestions[OffsetQuestion] = LeaderQuestions(
            client, metadata, backoff=backoff, rng=rng, ask=self._send
        )

    def ask(self, question: OffsetQuestion) -> None:
        """Send a query at the next opportunity; `on_found` is called once, unless it is withdrawn.

        Args:
            question: A query that was not given before.
        """
        self._questions.add(question)

    def withdraw(self, question: OffsetQuestion) -> None:
        """Cancel a query; a response to it is ignored.

        Args:
            question: Any query.
        """
        self._questions.remove(question)
        question.on_found = question.on_error = _ignore

    def topics(self) -> Iterable[str]:
        """The topics of all queries."""
        return (question.key.topic for question in self._questions.waiting)

    def send(self, now_ms: int) -> int:
        """Send the queries that can be sent.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next attempt; connection events may come earlier.
        """
        return self._questions.send(now_ms)

    def _send(self, node: Node, questions: list[OffsetQuestion], now_ms: int) -> None:
        # A request may contain a partition only once.
        asked: dict[TopicPartition, OffsetQuestion] = {}
        for question in questions:
            asked.setdefault(question.key, question)
        self._questions.begin(node.node_id, asked.values())
        self._client.send(
            ClientRequest(
                node_id=node.node_id,
                api_key=ApiKey.LIST_OFFSETS,
                versions=_COMMITTED_VERSIONS if self._reads_committed else _VERSIONS,
                body=self._body(asked),
                on_complete=lambda outcome: self._complete(outcome, asked),
                bounds=Bounds(
                    memory_bytes=ANSWER_BYTES + _PARTITION_BYTES * len(asked),
                    totals={"topics": len(asked), "partitions": len(asked)},
                    unread={"old_style_offsets"},
                ),
                check=partial(check_offsets, asked),
            ),
            now_ms,
        )

    def _body(self, asked: Mapping[TopicPartition, OffsetQuestion]) -> dict[str, Any]:
        topics: dict[str, list[dict[str, Any]]] = {}
        snapshot = self._metadata.snapshot
        for key, question in asked.items():
            topics.setdefault(key.topic, []).append(
                {
                    "partition_index": key.partition,
                    "current_leader_epoch": snapshot.leader_epoch_of(*key),
                    "timestamp": question.timestamp,
                }
            )
        return {
            "replica_id": _NO_REPLICA,
            "isolation_level": int(self._reads_committed),
            "topics": [{"name": name, "partitions": it} for name, it in topics.items()],
            "timeout_ms": self._timeout_ms,
        }

    def _complete(self, outcome: Outcome, asked: dict[TopicPartition, OffsetQuestion]) -> None:
        self._questions.end(outcome.node_id)
        answers: dict[TopicPartition, Mapping[str, Any]] = {}
        for topic in () if outcome.body is None else outcome.body["topics"]:
            for answer in topic["partitions"]:
                answers[TopicPartition(topic["name"], answer["partition_index"])] = answer
        for key, question in asked.items():
            answer = answers.get(key)
            if answer is None:
                error = outcome.error or RemoteProtocolError(
                    f"a ListOffsets response leaves out partition {key.partition} of {key.topic!r}"
                )
                self._fail(question, error, outcome.now_ms)
            elif answer["error_code"]:
                text = f"the offset of topic {key.topic!r}, partition {key.partition}"
                error = denial_or_error(
                    answer["error_code"],
                    "DESCRIBE",
                    key.topic,
                    principal=self._metadata.principal,
                    message=text,
                )
                self._fail(question, error, outcome.now_ms)
            else:
                question.on_found(
                    FoundOffset(answer["offset"], answer["timestamp"], answer["leader_epoch"])
                )
                self.withdraw(question)  # if a later one raises, only the others are sent again

    def _fail(self, question: OffsetQuestion, error: KprodError, now_ms: int) -> None:
        if question.on_found is _ignore:
            return
        question.error = error
        if not error.retriable:
            question.on_error(error)
        self._questions.put_off(question, error, now_ms)
        if question.on_found is not _ignore:
            self._questions.add(question)


def check_offsets(asked: Mapping[TopicPartition, OffsetQuestion], body: Mapping[str, Any]) -> None:
    """Reject impossible offsets.

    Args:
        asked: The queries of the request.
        body: A ListOffsets response.

    Raises:
        RemoteProtocolError: An offset is above the largest possible one, or below 0; −1 is possible
            for a query by time.
    """
    for topic in body["topics"]:
        for answer in topic["partitions"]:
            question = asked.get(TopicPartition(topic["name"], answer["partition_index"]))
            least = _NO_RECORD if question is None or question.timestamp >= 0 else 0
            if not answer["error_code"] and not least <= answer["offset"] < OFFSET_MAX:
                raise RemoteProtocolError(
                    f"a ListOffsets response gives partition {answer['partition_index']} the"
                    f" offset {answer['offset']}; it is from {least} to {OFFSET_MAX - 1}"
                )


def _ignore(_: object) -> None:
    """Ignore the result of a withdrawn query."""
