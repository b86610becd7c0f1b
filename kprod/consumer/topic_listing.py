"""Asks brokers for the names of all topics, while a pattern is subscribed.

It asks at once for a new pattern, every `metadata_max_age_ms`, and earlier if a topic that matched
is gone. The pattern is compared in the polling thread, since a slow one must not stop heartbeats.

Bounds. Brokers, partitions and ids are skipped undecoded.

Thread-safety: the I/O thread.
Source: MetadataRequest.json (kafka-clients 4.3.1): null asks for all topics.
"""

import random
from collections.abc import Callable

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.consumer.assignment import Assignment
from kprod.consumer.topic_pattern import TopicPattern
from kprod.consumer.topic_watch import TopicWatch, Whole
from kprod.errors import KprodError
from kprod.network.client import NetworkClient
from kprod.network.client_request import ClientRequest, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

FOREVER_MS = 60_000
_VERSIONS = (4, 12)  # the first that creates no topic; the last without an error for the whole
_BOUNDS = Bounds(
    memory_bytes=128 * 1024 * 1024,  # more than 100,000 topics, for which this is enough
    unread={"brokers", "partitions", "topic_id", "topic_authorized_operations"},
)
_GONE_PAUSE_MS = 1_000  # between two questions because of a topic that is gone


class TopicListing:
    """The questions of one consumer for the names of all topics."""

    def __init__(  # noqa: PLR0913 - the collaborators of a request
        self,
        client: NetworkClient,
        metadata: Metadata,
        assignment: Assignment,
        topics: TopicWatch,
        *,
        max_age_ms: int,
        with_internal: bool,
        backoff: ExponentialBackoff,
        rng: random.Random,
        on_names: Callable[[TopicPattern, frozenset[str]], object],
    ) -> None:
        """Start without a pattern.

        Args:
            client: Sends the requests.
            metadata: Tells of topics that are gone.
            assignment: Has the pattern.
            topics: Reports errors that are not retriable.
            max_age_ms: Time between two questions.
            with_internal: Whether a pattern is compared with internal topics, too.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
            on_names: Called with the pattern and all names, if they have changed.
        """
        self._client = client
        self._metadata = metadata
        self._assignment = assignment
        self._topics = topics
        self._max_age_ms = max_age_ms
        self._with_internal = with_internal
        self._backoff = backoff
        self._rng = rng
        self._on_names = on_names
        self._pattern: TopicPattern | None = None
        self._names: frozenset[str] | None = None
        self._is_asking = False
        self._due_ms = 0
        self._answered_ms = 0
        self._failures = 0
        self._version = 0

    def send(self, now_ms: int) -> int:
        """Ask, if it is time.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next question; events may come earlier.
        """
        pattern = self._assignment.pattern
        if pattern is None or self._is_asking:
            return FOREVER_MS
        if pattern is not self._pattern:
            self._pattern, self._names, self._due_ms = pattern, None, now_ms
        elif self._metadata.version != self._version:
            self._version = self._metadata.version
            if any(self._metadata.error_of(name) for name in self._assignment.names):
                self._due_ms = min(self._due_ms, self._answered_ms + _GONE_PAUSE_MS)
        if now_ms < self._due_ms:
            return self._due_ms - now_ms
        connections = self._client.connections
        node = connections.least_loaded_node(now_ms)
        if node is None:
            return max(1, connections.next_attempt_in_ms(now_ms))
        if not self._client.ready(node, now_ms):
            return max(1, connections.poll_delay_ms(node, now_ms))
        self._is_asking = True
        self._client.send(
            ClientRequest(
                node_id=node.node_id,
                api_key=ApiKey.METADATA,
                versions=_VERSIONS,
                body={"topics": None, "allow_auto_topic_creation": False},
                on_complete=lambda outcome: self._complete(pattern, outcome),
                bounds=_BOUNDS,
            ),
            now_ms,
        )
        return FOREVER_MS

    def _complete(self, pattern: TopicPattern, outcome: Outcome) -> None:
        self._is_asking = False
        if outcome.body is None:
            error = outcome.error or KprodError("no response")
            if not error.retriable:
                self._topics.note(Whole.PATTERN, error)
            wait_ms = max(1, self._backoff.wait_ms(self._failures, self._rng))
            self._due_ms = outcome.now_ms + wait_ms
            self._failures += 1
            return
        self._failures = 0
        self._topics.forget_problem(Whole.PATTERN)
        self._answered_ms = outcome.now_ms
        self._due_ms = outcome.now_ms + self._max_age_ms
        names = frozenset(
            topic["name"]
            for topic in outcome.body["topics"]
            if topic["name"]
            and topic["error_code"] != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            and (self._with_internal or not topic["is_internal"])
        )
        if pattern is self._pattern and names != self._names:
            self._on_names(pattern, names)
            self._names = names
