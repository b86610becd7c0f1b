"""Fetch sessions (KIP-227): a consumer names its partitions once, and afterwards only changes.

Behaviour.
    A. Epoch 0 begins a session, and ends the one whose id is given. If no place is free the
       response has id 0, and the reader asks for everything again.
    B. Epoch −1 ends a session, or is a fetch without any.
    C. Any other epoch continues: it must be the next one of the session, after 2³¹−1 comes 1.
       Partitions of the request are added or changed, forgotten ones are removed. An empty session
       ends.
    D. The response of a continued session has only partitions with records, with another high
       watermark or log start than the reader was told, with a diverging epoch, with a preferred
       replica, or with an error. After an error the partition is told again, once it has none.
    E. Partitions that gave records to a continued session move to the end, so that others come
       first next time.
    F. An unknown session is FETCH_SESSION_ID_NOT_FOUND, a wrong epoch INVALID_FETCH_SESSION_EPOCH,
       topic ids where the session has names, or names where it has ids,
       FETCH_SESSION_TOPIC_ID_ERROR; all with id 0.
    G. A broker keeps `SLOTS` sessions. A new one replaces one that was not used for `EVICTION_MS`;
       if there is none, the smallest one that is older than that and not larger than the new one.
Left out: privileged sessions of followers, since there are no followers in other processes.

Thread-safety: the broker's thread.
Source: Kafka FetchSession.scala and FetchManager (4.3.1); KIP-227, KIP-516 for topic ids.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from kprod.broker.request import Body
from kprod.protocol.error_table import ErrorCode

SLOTS = 1_000
EVICTION_MS = 120_000
NO_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

_EPOCH_MAX = 2**31 - 1
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_UNKNOWN_OFFSET = -1
_NO_REPLICA = -1

_Topic: TypeAlias = Mapping[str, Any]
_Key: TypeAlias = tuple[str | uuid.UUID, int]


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next fetch; 0 is for the first one only."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class _CachedPartition:
    """A partition's requested fields, and the values last sent to the consumer."""

    __slots__ = ("entry", "high_watermark", "log_start_offset", "topic")

    def __init__(self, topic: _Topic, entry: Mapping[str, Any]) -> None:
        self.topic = topic
        self.entry = entry
        self.high_watermark = _UNKNOWN_OFFSET
        self.log_start_offset = _UNKNOWN_OFFSET

    def take_news(self, answer: Mapping[str, Any]) -> bool:
        """Record the values to send; returns whether they differ from the last ones (case D)."""
        is_news = bool(
            answer["records"]
            or answer["high_watermark"] != self.high_watermark
            or answer["log_start_offset"] != self.log_start_offset
            or answer.get("preferred_read_replica", _NO_REPLICA) != _NO_REPLICA
            or answer["error_code"]
            or "diverging_epoch" in answer
        )
        self.high_watermark = answer["high_watermark"]
        self.log_start_offset = answer["log_start_offset"]
        if answer["error_code"]:
            self.high_watermark = _UNKNOWN_OFFSET
        return is_news


class FetchSession:
    """One fetch session.

    Attributes:
        session_id: At least 1.
        epoch: The epoch that the next fetch must have.
        uses_topic_ids: Whether topics are identified by id.
        created_ms: Monotonic time.
        last_used_ms: Monotonic time.
    """

    __slots__ = (
        "_partitions",
        "created_ms",
        "epoch",
        "last_used_ms",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, topics: Sequence[_Topic], *, by_id: bool, now_ms: int
    ) -> None:
        """Create a session from a full fetch."""
        self.session_id: int = session_id
        self.epoch: int = next_epoch(INITIAL_EPOCH)
        self.uses_topic_ids: bool = by_id
        self.created_ms: int = now_ms
        self.last_used_ms: int = now_ms
        self._partitions: dict[_Key, _CachedPartition] = {}
        self.update(topics, ())

    @property
    def size(self) -> int:
        """Number of partitions."""
        return len(self._partitions)

    def update(self, topics: Sequence[_Topic], forgotten: Sequence[_Topic]) -> None:
        """Add or change partitions, then remove some.

        Args:
            topics: The topics of a request.
            forgotten: The `forgotten_topics_data` of a request.
        """
        for topic in topics:
            name = self._name_of(topic)
            for entry in topic["partitions"]:
                known = self._partitions.get((name, entry["partition"]))
                if known is None:
                    cached = _CachedPartition(_plain(topic), entry)
                    self._partitions[name, entry["partition"]] = cached
                else:
                    known.entry = entry
        for topic in forgotten:
            for partition in topic["partitions"]:
                self._partitions.pop((self._name_of(topic), partition), None)

    def topics(self) -> list[_Topic]:
        """All partitions, in the form of a full request."""
        return list(self._grouped())

    def keep_news(self, body: dict[str, Any], *, is_full: bool = False) -> Body:
        """Remove from a response the partitions that have not changed.

        Args:
            body: A response with all partitions of the session; modified.
            is_full: Whether to keep everything.

        Returns:
            The modified body.
        """
        kept = []
        for topic in body["responses"]:
            answers = [it for it in topic["partitions"] if self._is_news(topic, it) or is_full]
            if not is_full:
                self._move_to_end(topic, answers)
            if answers:
                kept.append({**topic, "partitions": answers})
        body["responses"] = kept
        body["session_id"] = self.session_id
        return body

    def _is_news(self, topic: _Topic, answer: Mapping[str, Any]) -> bool:
        key = (self._name_of(topic), answer["partition_index"])
        cached = self._partitions.get(key)
        if cached is None:  # removed while the fetch waited
            return True
        return cached.take_news(answer)

    def _move_to_end(self, topic: _Topic, answers: list[Mapping[str, Any]]) -> None:
        """Case E."""
        for answer in answers:
            key = (self._name_of(topic), answer["partition_index"])
            if answer["records"] and key in self._partitions:
                self._partitions[key] = self._partitions.pop(key)

    def _grouped(self) -> Iterator[_Topic]:
        name: str | uuid.UUID | None = None
        entries: list[Mapping[str, Any]] = []
        for (found, _), cached in self._partitions.items():
            if found != name:
                name, entries = found, []
                yield {**cached.topic, "partitions": entries}
            entries.append(cached.entry)

    def _name_of(self, topic: _Topic) -> str | uuid.UUID:
        name: str | uuid.UUID = topic["topic_id"] if self.uses_topic_ids else topic["topic"]
        return name


def _plain(topic: _Topic) -> _Topic:
    return {"topic": topic["topic"], "topic_id": topic["topic_id"]}


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, *, slots: int = SLOTS) -> None:
        """Create an empty set of sessions with a maximum number."""
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}  # ordered by last use, the oldest first
        self._last_id = NO_SESSION_ID

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self._sessions)

    def clear(self) -> None:
        """Remove all sessions, as after a restart; their ids are not reused."""
        self._sessions.clear()

    def begin(
        self, topics: Sequence[_Topic], *, api_version: int, now_ms: int
    ) -> FetchSession | None:
        """Create a session (case A).

        Args:
            topics: All partitions of the request.
            api_version: Version of the Fetch request.
            now_ms: Monotonic time.

        Returns:
            The session; None if no slot is free.
        """
        size = sum(len(topic["partitions"]) for topic in topics)
        if len(self._sessions) >= self._slots and not self._evict(size, now_ms):
            return None
        self._last_id = 1 if self._last_id == _EPOCH_MAX else self._last_id + 1
        by_id = api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
        session = FetchSession(self._last_id, topics, by_id=by_id, now_ms=now_ms)
        self._sessions[session.session_id] = session
        return session

    def end(self, session_id: int) -> None:
        """Remove a session, if it exists."""
        self._sessions.pop(session_id, None)

    def go_on(self, body: Body, *, api_version: int, now_ms: int) -> FetchSession | ErrorCode:
        """Continue a session (cases C and F).

        Args:
            body: The body of the request.
            api_version: Version of the Fetch request.
            now_ms: Monotonic time.

        Returns:
            The session, with the request's changes; if it is empty, it has ended. Otherwise an
            error code.
        """
        session = self._sessions.get(body["session_id"])
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != body["session_epoch"]:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != (api_version >= _FIRST_VERSION_WITH_TOPIC_IDS):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(body["topics"], body["forgotten_topics_data"])
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = now_ms
        del self._sessions[session.session_id]
        if session.size:
            self._sessions[session.session_id] = session
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Free a slot for a session with a number of partitions (case G)."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            del self._sessions[oldest.session_id]
            return True
        grown = [it for it in self._sessions.values() if now_ms - it.created_ms > EVICTION_MS]
        smallest = min(grown, key=lambda it: (it.size, it.session_id), default=None)
        if smallest is None or smallest.size > size:
            return False
        del self._sessions[smallest.session_id]
        return True
