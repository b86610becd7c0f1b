"""Queries about partitions that only their leaders can answer, batched by leader and retried.

A broker gets one request of a kind at a time; further queries are batched into the next request. A
query for a partition without a known leader waits for metadata, whose arrival causes a turn of the
loop.

Thread-safety: the I/O thread.
Source: Kafka OffsetFetcher.groupPartitionsForListOffsets (clients 4.3.1).
"""

import random
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.errors import KprodError
from kprod.model import Node, TopicPartition
from kprod.network.client import NetworkClient
from kprod.protocol.error_table import UnknownLeaderEpoch

_LONG_MS = 60_000


class LeaderQuestion(Protocol):
    """A query about one partition.

    Attributes:
        key: The partition.
        retry_at_ms: Earliest time of the next attempt, monotonic.
        failures: Number of consecutive failed attempts.
    """

    key: TopicPartition
    retry_at_ms: int
    failures: int


Q = TypeVar("Q", bound=LeaderQuestion)


class LeaderQuestions(Generic[Q]):
    """The waiting queries of one kind.

    Attributes:
        waiting: Queries to be sent, in order of arrival.
    """

    def __init__(
        self,
        client: NetworkClient,
        metadata: Metadata,
        *,
        backoff: ExponentialBackoff,
        rng: random.Random,
        ask: Callable[[Node, list[Q], int], object],
    ) -> None:
        """Start with no queries.

        Args:
            client: Provides the brokers that are ready for a request.
            metadata: Provides the leaders.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
            ask: Sends one request with waiting queries to their leader, and calls `begin` for those
                that it sent.
        """
        self._client = client
        self._metadata = metadata
        self._backoff = backoff
        self._rng = rng
        self._ask = ask
        self._busy: set[int] = set()
        self.waiting: dict[Q, None] = {}

    def add(self, question: Q) -> None:
        """Send a query at the next opportunity.

        Args:
            question: A query that is not waiting yet.
        """
        self.waiting[question] = None

    def remove(self, question: Q) -> None:
        """Remove a query; does nothing if it is not waiting.

        Args:
            question: Any query.
        """
        self.waiting.pop(question, None)

    def begin(self, node_id: int, asked: Iterable[Q]) -> None:
        """Record that a request was sent.

        Args:
            node_id: The broker.
            asked: The queries in the request; they stop waiting.
        """
        for question in asked:
            del self.waiting[question]
        self._busy.add(node_id)

    def end(self, node_id: int) -> None:
        """Record that a request has ended.

        Args:
            node_id: The broker.
        """
        self._busy.discard(node_id)

    def put_off(self, question: Q, error: KprodError, now_ms: int) -> None:
        """Record a failure: the query is retried after the back-off, with newer metadata if needed.

        Args:
            question: The failed query.
            error: The failure.
            now_ms: Monotonic time.
        """
        if contradicts_metadata(error):
            self._metadata.request_update()
        wait_ms = self._backoff.wait_ms(question.failures, self._rng)
        question.retry_at_ms = now_ms + max(1, wait_ms)
        question.failures += 1

    def send(self, now_ms: int) -> int:
        """Send the queries that can be sent.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next attempt; connection events may come earlier.
        """
        wait_ms = _LONG_MS
        by_node: dict[Node, list[Q]] = {}
        for question in self.waiting:
            if question.retry_at_ms > now_ms:
                wait_ms = min(wait_ms, question.retry_at_ms - now_ms)
                continue
            node = self._metadata.snapshot.leader_of(*question.key)
            if node is None:
                # the response causes a turn
                self._metadata.request_update_for_topic(question.key.topic)
            elif node.node_id not in self._busy:
                by_node.setdefault(node, []).append(question)
        for node, questions in by_node.items():
            if self._client.ready(node, now_ms):
                self._ask(node, questions, now_ms)
            else:
                delay_ms = self._client.connections.poll_delay_ms(node, now_ms)
                wait_ms = min(wait_ms, max(delay_ms, 1))
        return wait_ms


def contradicts_metadata(error: KprodError) -> bool:
    """Whether a broker and metadata disagree about a partition, so that newer metadata may help.

    UNKNOWN_LEADER_EPOCH is such an error, though Kafka does not mark it as one of stale metadata:
    after a topic was deleted and created again, its epochs start at 0, and the broker rejects every
    request that has the old topic's higher epoch.

    Args:
        error: The failure of a request that has the leader epoch of metadata.

    Returns:
        Whether to request metadata before the next attempt.
    """
    return error.refresh_metadata or isinstance(error, UnknownLeaderEpoch)
