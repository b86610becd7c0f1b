# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Decides when to request metadata, and for which topics; applies the responses.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

There are two kinds of request. A full one names every topic in use and is sent when something is
found to be out of date, and every `metadata_max_age_ms`. A partial one names only the topics
without a usable entry (new, unknown, without a leader): one missing topic must not make the client
fetch ten thousand partitions again and again.

Metadata of a new topic is requested immediately; otherwise `QuestionSchedule` decides when.
`Question` has the changes that a response makes.

Why there is no lock. A signal handler or a finalizer may flush; it then waits for the client's
thread, which must not need a lock that the interrupted code holds. So one thread, the client's,
owns the metadata. Other threads read values that are replaced as a whole, and post requests:
`request_refresh` appends to a deque, which is atomic, and the owner takes them from there
(`Refreshes`).

Invariants.
    At most one question is out.
    `version` grows with every response, after the snapshot was replaced and before waiters are
    woken. A refresh that was requested while a question is out is served by a later question. A
    topic that a response calls unknown leaves the snapshot; nothing else changes because of it.

Thread-safety: the client's thread, except for the methods and attributes under "Any thread".
Source: Metadata.java and ProducerMetadata.java (clients 4.3.1); KIP-526, KIP-580, KIP-899, KIP-951,
KIP-1102.
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kprod.cluster.awaited_version import AwaitedVersion
from kprod.cluster.connection_failures import ConnectionFailures
from kprod.cluster.metadata_question import Question
from kprod.cluster.metadata_response import MetadataResponse, read_response
from kprod.cluster.refresh_schedule import NEVER_MS, QuestionSchedule
from kprod.cluster.refreshes import Refreshes
from kprod.cluster.snapshot import ClusterSnapshot, LeaderHint
from kprod.config import MetadataSettings
from kprod.errors import BrokerError, KprodError
from kprod.model import Node
from kprod.protocol.error_table import ErrorCode

_NEVER_MS = NEVER_MS  # a C integer: see the `.pxd`
_NO_RESPONSE = "no broker has answered yet"
_BROKERS_RESPOND = "the brokers respond, but have not given it"
NOTED_EVERY_MS = 100  # how exactly a last use is known; metadata_max_idle_ms is far more


class Metadata(AwaitedVersion):
    """The newest snapshot, and the policy that keeps it new."""

    def __init__(self, settings: MetadataSettings, *, rng: random.Random) -> None:
        """Start from the bootstrap addresses, with a first refresh requested.

        Args:
            settings: Bootstrap servers and intervals.
            rng: Random numbers for jitter.
        """
        super().__init__()
        self.snapshot: ClusterSnapshot = ClusterSnapshot().rebootstrapped(
            _bootstrap_nodes(settings)
        )
        self.connection_failures: ConnectionFailures = ConnectionFailures()
        self.principal: str = settings.principal  # for texts
        self._settings = settings
        self._schedule = QuestionSchedule(settings, rng)
        self._refreshes = Refreshes()
        self._posted = self._refreshes.posted  # looked at for each request
        self._topics: dict[str, int] = {}  # name → monotonic ms at which disuse makes it forgotten
        self._unsettled: set[str] = set()  # topics in use that a partial question would name
        self._topic_errors: dict[str, BrokerError] = {}
        self._full_wanted = True
        self._question: Question | None = None
        self._last_error: KprodError | None = None
        self._settle_instants()

    # Methods of any thread.

    @property
    def recovers_by_rebootstrap(self) -> bool:
        """Whether to begin again from the configuration when no known broker can be used."""
        return self._settings.metadata_recovery_strategy == "rebootstrap"

    def age_ms(self, now_ms: int) -> int | None:
        """Return the age of the newest response about all topics.

        Args:
            now_ms: Monotonic time.

        Returns:
            At least 0; None before the first response.
        """
        last_ms = self._schedule.last_success_ms
        return None if last_ms is None else max(now_ms - last_ms, 0)

    def error_of(self, topic: str) -> BrokerError | None:
        """Why a topic is not in the snapshot.

        Args:
            topic: The topic's name.

        Returns:
            The broker's reason in the newest response that names the topic, or None.
        """
        return self._topic_errors.get(topic)

    def trouble(self, topic: str | None = None) -> str:
        """Explain in one line why metadata is missing, for error texts.

        Args:
            topic: The topic waited for, if one was.

        Returns:
            The topic's error, connection errors by address, and the last failed request, as
            available.
        """
        parts = []
        if topic is not None and (error := self.error_of(topic)) is not None:
            parts.append(str(error))
        parts += self.connection_failures.texts()
        if not parts and (last_error := self._last_error) is not None:
            parts.append(str(last_error))
        if not parts:
            parts.append(_BROKERS_RESPOND if self.version else _NO_RESPONSE)
        return "; ".join(parts)

    def request_refresh(self, topic: str) -> int:
        """Mark a topic as used, and request its metadata; the caller must then wake the client.

        Args:
            topic: The topic's name.

        Returns:
            A number for `has_refreshed`.
        """
        return self._refreshes.post(topic)

    def has_refreshed(self, topic: str, number: int) -> bool:
        """Whether there is a response to a request sent after the refresh was requested.

        Args:
            topic: The topic's name.
            number: The result of `request_refresh` for this topic.

        Returns:
            False too while questions fail.
        """
        return self._refreshes.is_done(topic, number)

    # The client's thread.

    def add_topic(self, topic: str, now_ms: int) -> None:
        """Mark a topic as used; metadata of a new one is requested immediately.

        Args:
            topic: The topic's name.
            now_ms: Monotonic time.
        """
        forgotten_at_ms = now_ms + self._settings.metadata_max_idle_ms
        if self._topics.get(topic, 0) > forgotten_at_ms - NOTED_EVERY_MS:
            return
        if topic not in self._topics:
            self._unsettled.add(topic)
            self._schedule.note_new_topic(now_ms)
            self._settle_instants()
        self._topics[topic] = forgotten_at_ms

    def is_in_use(self, topic: str) -> bool:
        """Whether `add_topic` would at most note the time, which runs no Python bytecode.

        Args:
            topic: The topic's name.

        Returns:
            False for a topic that is new, or that was forgotten.
        """
        return topic in self._topics

    def request_update(self) -> None:
        """Request the metadata of every topic in use."""
        self._full_wanted = True
        self._settle_instants()

    def request_update_for_topic(self, topic: str) -> None:
        """Request the metadata of one topic in use.

        Args:
            topic: The topic's name.
        """
        if topic in self._topics and topic not in self.snapshot.topics:
            self._unsettled.add(topic)
        else:
            self._full_wanted = True
        self._settle_instants()

    def update_due_in_ms(self, now_ms: int) -> int:
        """Return when the next request may be sent.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds, 0 for now, `NEVER_MS` while a question is out. 0 too while another thread
            has requested a refresh and `take_refreshes` was not called.
        """
        if self._posted:
            # reading a response runs bytecode, not for the direct path (`COMPILED_MODULES`)
            return 0
        due_at_ms = self._schedule.due_at_ms
        return _NEVER_MS if due_at_ms == _NEVER_MS else max(due_at_ms - now_ms, 0)

    def take_refreshes(self, now_ms: int) -> None:
        """Include the topics that other threads posted in the next request.

        Args:
            now_ms: Monotonic time.
        """
        for topic in self._refreshes.take():
            self.add_topic(topic, now_ms)
            self._unsettled.add(topic)
        self._settle_instants()

    def next_request(self, now_ms: int) -> dict[str, Any] | None:
        """Return the next request, if one is due; the caller must then report its outcome.

        Args:
            now_ms: Monotonic time.

        Returns:
            A Metadata request body of version 4 or higher, or None.
        """
        self.take_refreshes(now_ms)
        if self._schedule.due_at_ms > now_ms:
            return None
        self._forget_idle_topics(now_ms)
        is_full = self._full_wanted or not self._unsettled or self._schedule.is_old(now_ms)
        topics = frozenset(self._topics if is_full else self._unsettled)
        self._question = Question(topics, not is_full, self._refreshes.serve())
        self._unsettled -= topics
        if is_full:
            self._full_wanted = False
        self._schedule.note_question(now_ms)
        self._settle_instants()
        return {
            "topics": [{"name": topic} for topic in sorted(topics)],
            "allow_auto_topic_creation": self._settings.allow_auto_create_topics,
        }

    def handle_response(self, body: Mapping[str, Any] | MetadataResponse, now_ms: int) -> None:
        """Process the response to the request in flight.

        Args:
            body: A Metadata response as it was read, or as the codec decoded it. One that is an
                error, or that names no broker, counts as a failed question.
            now_ms: Monotonic time.
        """
        try:
            answer = body if isinstance(body, MetadataResponse) else read_response(body)
        except KprodError as error:
            self.handle_failure(error, now_ms)
            return
        question = self._question or Question(frozenset(self._topics), False, {})  # noqa: FBT003
        merged = question.merge(answer, self.snapshot, self._topic_errors)
        self._unsettled.update(merged.unsettled(question.topics))
        self._unsettled &= self._topics.keys()
        self._topic_errors = merged.errors
        self.snapshot = merged.snapshot
        self._last_error = None
        self._schedule.note_answer(
            now_ms, is_partial=question.is_partial, made_progress=merged.made_progress
        )
        if self._unsettled - question.topics:  # added while the question was out
            self._schedule.allow(now_ms)
        self._refreshes.finish(question.refreshes)
        self._question = None  # late: `handle_failure` repeats the question after an exception
        self._settle_instants()
        self.publish()

    def handle_failure(self, error: KprodError, now_ms: int) -> None:
        """Record that the request in flight failed; it is repeated later.

        Args:
            error: The reason.
            now_ms: Monotonic time.
        """
        question, self._question = self._question, None
        if question is not None:
            self._unsettled |= question.topics & self._topics.keys()
            self._full_wanted |= not question.is_partial
            self._refreshes.put_back(question.refreshes)
        self._last_error = error
        is_asked = isinstance(error, BrokerError) and error.code == ErrorCode.REBOOTSTRAP_REQUIRED
        self._schedule.note_failure(now_ms, rebootstrap_asked=is_asked)
        self._settle_instants()

    def fail_waiters(self, error: KprodError) -> None:
        """See `AwaitedVersion`; the error is also why the newest question failed."""
        self._last_error = error
        super().fail_waiters(error)

    def apply_leader_hints(self, hints: Iterable[LeaderHint], nodes: Iterable[Node] = ()) -> bool:
        """Apply new leaders from the response to another request.

        Args:
            hints: Leaders of partitions; only a higher epoch of a known partition counts.
            nodes: Addresses that came with them.

        Returns:
            Whether the snapshot changed.
        """
        if self.snapshot.is_bootstrap:
            return False
        hinted = self.snapshot.with_hints(hints, nodes)
        changed = hinted is not self.snapshot
        self.snapshot = hinted
        return changed

    def rebootstrap_is_due(self, now_ms: int) -> bool:
        """Whether to drop the known brokers and start again from the bootstrap servers.

        Args:
            now_ms: Monotonic time.

        Returns:
            True when a broker demanded it, or questions have failed for
            `metadata_recovery_rebootstrap_trigger_ms`.
        """
        return now_ms >= self._schedule.rebootstrap_at_ms

    def rebootstrap(self, now_ms: int) -> None:
        """Start again from the bootstrap addresses; partition counts stay.

        Args:
            now_ms: Monotonic time.
        """
        self.snapshot = self.snapshot.rebootstrapped(_bootstrap_nodes(self._settings))
        self._full_wanted = True
        self._schedule.note_rebootstrap(now_ms)
        self._settle_instants()

    def _settle_instants(self) -> None:
        """Recalculate when to send a request, and when to rebootstrap."""
        self._schedule.settle(
            is_out=self._question is not None,
            is_wanted=self._full_wanted or bool(self._unsettled),
        )

    def _forget_idle_topics(self, now_ms: int) -> None:
        for topic in [name for name, until_ms in self._topics.items() if until_ms <= now_ms]:
            if topic in self._refreshes.unserved:
                continue  # a thread waits for a response about it
            del self._topics[topic]
            self._unsettled.discard(topic)
            self._topic_errors.pop(topic, None)


def _bootstrap_nodes(settings: MetadataSettings) -> list[Node]:
    """Nodes for the configured addresses, under ids no broker has."""
    return [
        Node(-1 - index, address.host, address.port)
        for index, address in enumerate(settings.bootstrap_servers)
    ]
