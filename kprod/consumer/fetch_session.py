"""The client's part of a fetch session: only changes are sent to the broker.

A session begins with a full request, which names every partition. Later requests name only
partitions that are new, changed or forgotten, and responses only partitions with records or errors.
So a thousand idle partitions cost one small request in `fetch_max_wait_ms`.

A broker may reject a session (id 0); then each request is full. It may drop a session at any time;
then the next request is full and opens a new session.

Thread-safety: the I/O thread.
Source: KIP-227; Kafka FetchSessionHandler (clients 4.3.1).
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kprod.cluster.snapshot import NO_TOPIC_ID
from kprod.consumer.position import AssignedPartition
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode

_NO_SESSION = 0
_FIRST_EPOCH = 0
_EPOCH_MAX = 2**31 - 1
NAMES_VERSIONS = (4, 12)  # topics are identified by name
IDS_VERSIONS = (4, 17)  # from version 13 on by id

LOST_CODES = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchTerms(NamedTuple):
    """The fields of one partition in a request.

    Attributes:
        topic_id: The topic's id; all zero if unknown.
        leader_epoch: The leader epoch that the client knows; −1 if unknown.
        offset: Offset of the first record wanted.
        last_epoch: Leader epoch of the record before; −1 if unknown.
        bytes_max: Maximum size of the partition's records.
    """

    topic_id: uuid.UUID
    leader_epoch: int
    offset: int
    last_epoch: int
    bytes_max: int


class Wanted(NamedTuple):
    """A partition in a session.

    Attributes:
        partition: The partition.
        number: Number of the start that it is fetched for.
        terms: Its fields in the request.
    """

    partition: AssignedPartition
    number: int
    terms: FetchTerms


class FetchSession:
    """The partitions fetched from one broker.

    Attributes:
        wanted: Wanted partitions by topic and partition, in the order in which the broker should
            serve them.
    """

    __slots__ = ("_changed", "_epoch", "_known", "_session_id", "wanted")

    def __init__(self) -> None:
        """Start without a session."""
        self.wanted: dict[TopicPartition, Wanted] = {}
        self._session_id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, FetchTerms] = {}  # as the broker knows them
        self._changed: dict[TopicPartition, None] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request is a full request."""
        return self._session_id == _NO_SESSION or self._epoch == _FIRST_EPOCH

    def want(self, wanted: Wanted) -> None:
        """Add a partition at the end, or change it.

        Args:
            wanted: The partition; replaces its earlier fields.
        """
        key = wanted.partition.key
        if self.wanted.get(key) == wanted:
            return
        self.wanted.pop(key, None)
        self.wanted[key] = wanted
        self._changed[key] = None

    def drop(self, key: TopicPartition) -> bool:
        """Remove a partition.

        Args:
            key: Any partition.

        Returns:
            True if it was in the session.
        """
        if self.wanted.pop(key, None) is None:
            return False
        self._changed[key] = None
        return True

    def next_request(self) -> dict[str, Any]:
        """Return the session's fields of the next request, and record them as sent.

        Returns:
            `session_id`, `session_epoch`, `topics` and `forgotten_topics_data`; topics have both
            name and id.
        """
        if self.is_new:
            named: Mapping[TopicPartition, Wanted] = self.wanted
            forgotten: list[TopicPartition] = []
            epoch = _FIRST_EPOCH
        else:
            named = {
                key: self.wanted[key]
                for key in self._changed
                if key in self.wanted and self._known.get(key) != self.wanted[key].terms
            }
            forgotten = [
                key
                for key in self._changed
                if key in self._known
                and (
                    key not in self.wanted
                    or self._known[key].topic_id != self.wanted[key].terms.topic_id
                )
            ]
            epoch = self._epoch
        fields = {
            "session_id": self._session_id,
            "session_epoch": epoch,
            "topics": _topics(named),
            "forgotten_topics_data": self._forgotten(forgotten),
        }
        self._changed.clear()
        self._known = {key: it.terms for key, it in self.wanted.items()}
        return fields

    @property
    def goes_by_ids(self) -> bool:
        """Whether the ids of all topics are known, those of forgotten partitions included."""
        terms = (*(it.terms for it in self.wanted.values()), *self._known.values())
        return all(it.topic_id != NO_TOPIC_ID for it in terms)

    def note_response(self, session_id: int) -> None:
        """Process the session id of a response.

        Args:
            session_id: The id from the response; 0 for no session.
        """
        if session_id == _NO_SESSION:
            self.forget()
            return
        self._session_id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def forget(self) -> None:
        """Open a new session with the next request, since the broker has none."""
        self._session_id = _NO_SESSION
        self._begin_again()

    def note_failure(self) -> None:
        """Close the session and open a new one, since the broker may not know the last request."""
        self._begin_again()

    def closing_request(self) -> dict[str, Any] | None:
        """Return the fields of a request that closes the session; None without a session."""
        if self._session_id == _NO_SESSION:
            return None
        return {"session_id": self._session_id, "session_epoch": -1, "topics": []}

    def _begin_again(self) -> None:
        self._epoch = _FIRST_EPOCH
        self._known = {}
        self._changed = dict.fromkeys(self.wanted)

    def _forgotten(self, keys: Iterable[TopicPartition]) -> list[dict[str, Any]]:
        by_topic: dict[tuple[str, uuid.UUID], list[int]] = {}
        for key in keys:
            topic = (key.topic, self._known[key].topic_id)
            by_topic.setdefault(topic, []).append(key.partition)
        return [
            {"topic": name, "topic_id": topic_id, "partitions": partitions}
            for (name, topic_id), partitions in by_topic.items()
        ]


def _topics(named: Mapping[TopicPartition, Wanted]) -> list[dict[str, Any]]:
    """Group partitions by topic, in the order of each topic's first partition."""
    by_topic: dict[str, dict[str, Any]] = {}
    for key, wanted in named.items():
        terms = wanted.terms
        topic = by_topic.setdefault(
            key.topic, {"topic": key.topic, "topic_id": terms.topic_id, "partitions": []}
        )
        topic["partitions"].append(
            {
                "partition": key.partition,
                "current_leader_epoch": terms.leader_epoch,
                "fetch_offset": terms.offset,
                "last_fetched_epoch": terms.last_epoch,
                "partition_max_bytes": terms.bytes_max,
            }
        )
    return list(by_topic.values())
