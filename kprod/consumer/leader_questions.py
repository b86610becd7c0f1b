"""Questions about partitions that only their leaders can answer: batched, retried, one at a time.

A broker has one request of a kind at a time; questions that come meanwhile go together in the next.
A partition without a known leader waits for metadata, whose arrival brings a turn.

Thread-safety: the I/O thread.
Source: Kafka OffsetFetcher.groupPartitionsForListOffsets (clients 4.3.1).
"""

import random
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.model import Node, TopicPartition
from kprod.network.client import NetworkClient

_LONG_MS = 60_000


class LeaderQuestion(Protocol):
    """A question about one partition.

    Attributes:
        key: The partition.
        retry_at_ms: When it may be asked next, monotonic.
        failures: Attempts in a row that failed.
    """

    key: TopicPartition
    retry_at_ms: int
    failures: int


Q = TypeVar("Q", bound=LeaderQuestion)


class LeaderQuestions(Generic[Q]):
    """The waiting questions of one kind.

    Attributes:
        waiting: Those to be asked, in the order of their coming.
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
        """Start without questions.

        Args:
            client: Knows which brokers can be asked.
            metadata: Knows the leaders.
            backoff: Between attempts.
            rng: For jitter.
            ask: Sends one request with questions, which are all waiting, to their leader; it
                removes those that it asks.
        """
        self._client = client
        self._metadata = metadata
        self._backoff = backoff
        self._rng = rng
        self._ask = ask
        self._busy: set[int] = set()
        self.waiting: dict[Q, None] = {}

    def add(self, question: Q) -> None:
        """Ask at the next opportunity.

        Args:
            question: Not waiting yet.
        """
        self.waiting[question] = None

    def remove(self, question: Q) -> None:
        """Ask no more; nothing happens if it does not wait.

        Args:
            question: Any.
        """
        self.waiting.pop(question, None)

    def begin(self, node_id: int, asked: Iterable[Q]) -> None:
        """Note that a request is on its way.

        Args:
            node_id: The broker.
            asked: The questions in the request; they wait no more.
        """
        for question in asked:
            del self.waiting[question]
        self._busy.add(node_id)

    def end(self, node_id: int) -> None:
        """Note that a request has ended.

        Args:
            node_id: The broker.
        """
        self._busy.discard(node_id)

    def put_off(self, question: Q, now_ms: int) -> None:
        """Note a failure: the question may be asked again after the back-off.

        Args:
            question: That failed.
            now_ms: Monotonic.
        """
        wait_ms = self._backoff.wait_ms(question.failures, self._rng)
        question.retry_at_ms = now_ms + max(1, wait_ms)
        question.failures += 1

    def send(self, now_ms: int) -> int:
        """Send the questions that can be sent.

        Args:
            now_ms: Monotonic.

        Returns:
            Milliseconds until the next attempt; events on connections come before that.
        """
        wait_ms = _LONG_MS
        by_node: dict[Node, list[Q]] = {}
        for question in self.waiting:
            if question.retry_at_ms > now_ms:
                wait_ms = min(wait_ms, question.retry_at_ms - now_ms)
                continue
            node = self._metadata.snapshot.leader_of(*question.key)
            if node is None:
                self._metadata.request_update_for_topic(question.key.topic)  # it brings a turn
            elif node.node_id not in self._busy:
                by_node.setdefault(node, []).append(question)
        for node, questions in by_node.items():
            if self._client.ready(node, now_ms):
                self._ask(node, questions, now_ms)
            else:
                delay_ms = self._client.connections.poll_delay_ms(node, now_ms)
                wait_ms = min(wait_ms, max(delay_ms, 1))
        return wait_ms
