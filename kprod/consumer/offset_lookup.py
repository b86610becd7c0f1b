"""Asks leaders for offsets: the first, the one behind the last, or the first of a time.

Questions of all kinds are put together by leader; one request to each is out at a time. A question
that fails is asked again after a back-off, of the leader that metadata names then, until it is
withdrawn.

Thread-safety: the I/O thread.
Source: Kafka OffsetFetcher (clients 4.3.1); ListOffsetsRequest.json.
"""

import random
from collections.abc import Callable, Iterable, Mapping
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
from kprod.protocol.error_table import error_for

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
OFFSET_MAX = 2**63 - 1

_VERSIONS = (1, 11)  # before, a response was a list of segments
_COMMITTED_VERSIONS = (2, 11)  # the first with an isolation level
_PARTITION_BYTES = 1_024
_NO_REPLICA = -1


class FoundOffset(NamedTuple):
    """An offset that a leader named.

    Attributes:
        offset: −1 if there is no record of that time.
        timestamp_ms: The record's; −1 for an end of the log.
        leader_epoch: Of the record; −1 if the broker does not say.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


class OffsetQuestion:
    """One partition and time.

    Attributes:
        key: The partition.
        timestamp: Milliseconds since 1970, or `EARLIEST_TIMESTAMP` or `LATEST_TIMESTAMP`.
        on_found: Called once with the offset.
        on_error: Told each failure that time may not mend; the question stays.
        retry_at_ms: When to ask again.
        failures: In a row.
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
        """Make a question that was not asked yet."""
        self.key: TopicPartition = key
        self.timestamp: int = timestamp
        self.on_found: Callable[[FoundOffset], object] = on_found
        self.on_error: Callable[[KprodError], object] = on_error
        self.retry_at_ms: int = 0
        self.failures: int = 0
        self.error: KprodError | None = None


class OffsetLookup:
    """All questions of one consumer."""

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
        """Start without questions.

        Args:
            client: Carries the requests.
            metadata: Knows the leaders.
            backoff: Between attempts.
            rng: For jitter.
            reads_committed: Whether the end of a log is its last stable offset.
            timeout_ms: Of a request; in its last versions the broker is told.
        """
        self._client = client
        self._metadata = metadata
        self._reads_committed = reads_committed
        self._timeout_ms = timeout_ms
        self._questions: LeaderQuestions[OffsetQuestion] = LeaderQuestions(
            client, metadata, backoff=backoff, rng=rng, ask=self._send
        )

    def ask(self, question: OffsetQuestion) -> None:
        """Ask at the next opportunity; `on_found` is called once, unless it is withdrawn.

        Args:
            question: Of its own.
        """
        self._questions.add(question)

    def withdraw(self, question: OffsetQuestion) -> None:
        """Ask no more; a response that is on its way is dropped.

        Args:
            question: Answered or not.
        """
        self._questions.remove(question)
        question.on_found = question.on_error = _ignore

    def topics(self) -> Iterable[str]:
        """The topics of all questions."""
        return (question.key.topic for question in self._questions.waiting)

    def send(self, now_ms: int) -> int:
        """Send what can be sent.

        Args:
            now_ms: Monotonic.

        Returns:
            Milliseconds until the next attempt; events on connections come before that.
        """
        return self._questions.send(now_ms)

    def _send(self, node: Node, questions: list[OffsetQuestion], now_ms: int) -> None:
        # A partition may be in a request once.
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
                check=check_offsets,
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
                self._fail(question, error_for(answer["error_code"], text), outcome.now_ms)
            else:
                question.on_found(
                    FoundOffset(answer["offset"], answer["timestamp"], answer["leader_epoch"])
                )

    def _fail(self, question: OffsetQuestion, error: KprodError, now_ms: int) -> None:
        if question.on_found is _ignore:
            return
        question.error = error
        if error.refresh_metadata:
            self._metadata.request_update()
        if not error.retriable:
            question.on_error(error)
        self._questions.put_off(question, now_ms)
        if question.on_found is not _ignore:
            self._questions.add(question)


def check_offsets(body: Mapping[str, Any]) -> None:
    """Refuse offsets that no log has.

    Args:
        body: A ListOffsets response.

    Raises:
        RemoteProtocolError: An offset is below −1, or beyond the last that there can be.
    """
    for topic in body["topics"]:
        for answer in topic["partitions"]:
            if not answer["error_code"] and not -1 <= answer["offset"] < OFFSET_MAX:
                raise RemoteProtocolError(
                    f"a ListOffsets response gives partition {answer['partition_index']} the"
                    f" offset {answer['offset']}; an offset is 0 to {OFFSET_MAX - 1}"
                )


def _ignore(_: object) -> None:
    """Nobody waits for it any more."""
