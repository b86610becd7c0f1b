"""Asks the coordinator for a group's committed offsets.

Questions for several partitions go out as one request; a failed one is asked again after a
back-off, until it is withdrawn.

Thread-safety: the I/O thread.
Source: Kafka ConsumerCoordinator.sendOffsetFetchRequest, OffsetFetchResponseHandler (clients
4.3.1); KIP-447 for `require_stable`.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.backoff import ExponentialBackoff
from kprod.consumer.group.coordinator_link import (
    FOREVER_MS,
    CoordinatorLink,
    CoordinatorRequest,
)
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

_VERSIONS = (1, 7)  # later ones ask for several groups at once
_FIRST_WITH_STABLE = 7
_FIRST_WITH_ERROR = 2
_PARTITION_BYTES = 1_024 + 4_096  # metadata is 4 KiB at most, unless a broker is set otherwise
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_NONE = -1


class CommittedQuestion:
    """A question about one partition.

    Attributes:
        key: The partition.
        on_found: Called once, with the committed offset, or None if there is none.
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
        *,
        backoff: ExponentialBackoff,
        rng: random.Random,
    ) -> None:
        """Start without questions.

        Args:
            group_id: The group.
            link: The coordinator.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
        """
        self._group_id = group_id
        self._link = link
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
        body: dict[str, Any] = {
            "group_id": self._group_id,
            "topics": [{"name": name, "partition_indexes": it} for name, it in topics.items()],
        }
        stable = {"require_stable": True}
        self._link.send(
            CoordinatorRequest(
                ApiKey.OFFSET_FETCH,
                _VERSIONS,
                lambda version: {**body, **stable} if version >= _FIRST_WITH_STABLE else body,
                bounds=Bounds(
                    memory_bytes=ANSWER_BYTES + _PARTITION_BYTES * len(keys),
                    totals={"topics": len(keys), "partitions": len(keys)},
                ),
            ),
            lambda outcome: self._complete(outcome, asked),
            now_ms,
        )
        return FOREVER_MS

    def _complete(self, outcome: Outcome, asked: Mapping[CommittedQuestion, None]) -> None:
        self._is_asking = False
        body, code, failure = outcome.body, 0, None
        if body is None:
            failure = outcome.error or KprodError("no response")
        elif outcome.version >= _FIRST_WITH_ERROR:
            code = body["error_code"]
        if code:
            failure = denial_or_error(code, "READ", self._group_id)
        answers: dict[TopicPartition, Mapping[str, Any]] = {}
        for topic in () if body is None else body["topics"]:
            for each in topic["partitions"]:
                answers[TopicPartition(topic["name"], each["partition_index"])] = each
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
        return None


def _has_moved(error: KprodError) -> bool:
    if isinstance(error, BrokerError):
        return error.code in _MOVED
    return isinstance(error, (ConnectionFailed, RequestTimeout))


def _ignore(_: object) -> None:
    """Ignore the response to a withdrawn question."""
