"""Asks the coordinator for a group's committed offsets.

Questions for several partitions go out as one request; a failed one is asked again after a
back-off, until it is withdrawn.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator.sendOffsetFetchRequest, OffsetFetchResponseHandler (clients
4.3.1); KIP-447 for `require_stable`.
"""

import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.backoff import ExponentialBackoff
from kprod.consumer.group.coordinator_link import (
    FOREVER_MS,
    CoordinatorLink,
    CoordinatorRequest,
)
from kprod.consumer.group.topic_ids import TopicIds, names_by_id
from kprod.consumer.partition_texts import named
from kprod.errors import (
    BrokerError,
    ConnectionFailed,
    KprodError,
    RemoteProtocolError,
    RequestTimeout,
)
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.network.client_request import ANSWER_BYTES, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION = 1
_LAST_WITH_NAMES, _LAST_VERSION = 9, 10  # version 10 has topic ids instead
_FIRST_WITH_ERROR = 2
_FIRST_WITH_STABLE = 7
_FIRST_WITH_GROUPS = 8
_PARTITION_BYTES = 1_024 + 4_096  # metadata is 4 KiB at most, unless a broker is set otherwise
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_NONE = -1


class CommittedQuestion:
    """A question about one partition.

    Attributes:
        key: The partition.
        on_found: Called once, with the committed offset, or None if there is none; again if it
            raises an exception.
        on_error: Called with each failure that is not retriable; the question remains.
    """

    __slots__ = ("key", "on_error", "on_found")

    def __init__(
        self,
        key: TopicPartition,
        on_found: Callable[[OffsetAndMetadata | None], object],
        on_error: Callable[[KprodError], object],
    ) -> None:
        """Create a question that was not asked."""
        self.key: TopicPartition = key
        self.on_found: Callable[[OffsetAndMetadata | None], object] = on_found
        self.on_error: Callable[[KprodError], object] = on_error


class CommittedOffsets:
    """All questions of one consumer."""

    def __init__(
        self,
        group_id: str,
        link: CoordinatorLink,
        topic_ids: TopicIds,
        *,
        backoff: ExponentialBackoff,
        rng: random.Random,
    ) -> None:
        """Start without questions.

        Args:
            group_id: The group.
            link: The coordinator.
            topic_ids: Provides the topics' ids.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
        """
        self._group_id = group_id
        self._link = link
        self._topic_ids = topic_ids
        self._backoff = backoff
        self._rng = rng
        self._waiting: dict[CommittedQuestion, None] = {}
        self._is_asking = False
        self._retry_at_ms = 0
        self._failures = 0

    def ask(self, questions: Iterable[CommittedQuestion]) -> None:
        """Ask at the next opportunity.

        Args:
            questions: Questions that were not asked before.
        """
        self._waiting.update(dict.fromkeys(questions))

    def withdraw(self, questions: Iterable[CommittedQuestion]) -> None:
        """Ignore the responses to questions.

        Args:
            questions: Any questions.
        """
        for question in questions:
            self._waiting.pop(question, None)
            question.on_found = question.on_error = _ignore

    def run(self, now_ms: int) -> int:
        """Send the waiting questions.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next action; events may come earlier.
        """
        if self._is_asking or not self._waiting:
            return FOREVER_MS
        if now_ms < self._retry_at_ms:
            return self._retry_at_ms - now_ms
        if not self._link.ready(now_ms):
            return self._link.wait_ms(now_ms)
        asked, self._waiting = self._waiting, {}
        self._is_asking = True
        keys = dict.fromkeys(question.key for question in asked)
        topics: dict[str, list[int]] = {}
        for key in keys:
            topics.setdefault(key.topic, []).append(key.partition)
        ids = self._topic_ids.of(topics)
        names = names_by_id(ids)
        self._link.send(
            CoordinatorRequest(
                ApiKey.OFFSET_FETCH,
                (_FIRST_VERSION, _LAST_VERSION if ids else _LAST_WITH_NAMES),
                lambda version: _shape(version, self._group_id, topics, ids),
                bounds=Bounds(
                    memory_bytes=ANSWER_BYTES + _PARTITION_BYTES * len(keys),
                    totals={"topics": len(keys), "partitions": len(keys), "groups": 1},
                ),
            ),
            lambda outcome: self._complete(outcome, asked, names),
            now_ms,
        )
        return FOREVER_MS

    def _complete(
        self,
        outcome: Outcome,
        asked: Mapping[CommittedQuestion, None],
        names: Mapping[uuid.UUID, str],
    ) -> None:
        self._is_asking = False
        body, code, failure = outcome.body, 0, None
        if body is not None and outcome.version >= _FIRST_WITH_GROUPS:
            body = next(iter(body["groups"]), None)
        if body is None:
            failure = outcome.error or RemoteProtocolError("a response is empty")
        elif outcome.version >= _FIRST_WITH_ERROR:
            code = body["error_code"]
        if code:
            failure = denial_or_error(code, "READ", self._group_id)
        answers: dict[TopicPartition, Mapping[str, Any]] = {}
        for topic in () if body is None else body["topics"]:
            has_id = outcome.version > _LAST_WITH_NAMES
            name = names.get(topic["topic_id"], "") if has_id else topic["name"]
            for each in topic["partitions"]:
                answers[TopicPartition(name, each["partition_index"])] = each
                if each["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID:
                    self._topic_ids.renew()
        errors = [self._take(question, answers, failure) for question in asked]
        failed = [error for error in errors if error is not None]
        if not failed:
            self._failures = 0
            self._link.works()
            return
        self._retry_at_ms = outcome.now_ms + max(
            1, self._backoff.wait_ms(self._failures, self._rng)
        )
        self._failures += 1
        if any(_has_moved(error) for error in failed):
            self._link.lose(outcome.now_ms)

    def _take(
        self,
        question: CommittedQuestion,
        answers: Mapping[TopicPartition, Mapping[str, Any]],
        failure: KprodError | None,
    ) -> KprodError | None:
        """Answer a question, or ask again; returns the reason why it is asked again."""
        answer, error = answers.get(question.key), failure
        if error is None and answer is None:
            error = RemoteProtocolError(
                f"an OffsetFetch response leaves out {named([question.key])}"
            )
        elif error is None and answer is not None and answer["error_code"]:
            code, topic = answer["error_code"], question.key.topic
            error = denial_or_error(code, "DESCRIBE", topic, message=named([question.key]))
        if error is not None:
            if question.on_found is not _ignore:
                self._waiting[question] = None
            if not error.retriable:
                question.on_error(error)
            return error
        assert answer is not None  # noqa: S101 - else there is an error
        offset = answer["committed_offset"]
        if offset < 0:
            question.on_found(None)
        else:
            epoch = max(_NONE, answer.get("committed_leader_epoch", _NONE))
            question.on_found(OffsetAndMetadata(offset, answer["metadata"] or "", epoch))
        self.withdraw([question])  # if a later one raises, only the others are asked again
        return None


def _shape(
    version: int,
    group_id: str,
    topics: Mapping[str, list[int]],
    ids: Mapping[str, uuid.UUID],
) -> dict[str, Any]:
    """Return the fields of a request."""
    has_ids = version > _LAST_WITH_NAMES
    entries = [
        {**({"topic_id": ids[name]} if has_ids else {"name": name}), "partition_indexes": numbers}
        for name, numbers in topics.items()
    ]
    group = {"group_id": group_id, "topics": entries}
    body: dict[str, Any] = group if version < _FIRST_WITH_GROUPS else {"groups": [group]}
    return {**body, "require_stable": True} if version >= _FIRST_WITH_STABLE else body


def _has_moved(error: KprodError) -> bool:
    if isinstance(error, BrokerError):
        return error.code in _MOVED
    return isinstance(error, (ConnectionFailed, RequestTimeout))


def _ignore(_: object) -> None:
    """Ignore the response to a withdrawn question."""
