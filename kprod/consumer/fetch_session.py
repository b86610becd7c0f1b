# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The client's part of a fetch session: only changes are sent to the broker.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

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
from typing import Any

from kprod.consumer.position import AssignedPartition, State
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode

_FETCHING = State.FETCHING  # cached: attribute access on an enum class runs Python code
_NO_SESSION = 0  # this and the following: C integers, see the `.pxd`
_FIRST_EPOCH = 0
_CLOSING_EPOCH = -1
_EPOCH_MAX = 2**31 - 1
NAMES_VERSIONS = (4, 12)  # topics are identified by name
IDS_VERSIONS = (4, 17)
IDS_FIRST_VERSION = 13  # topics are identified by id from this version on

LOST_CODES = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Wanted:
    """A partition in a session, with its fields in the request; only `move` changes it.

    Attributes:
        partition: The partition.
        number: Number of the start that it is fetched for.
        topic_id: The topic's id; all zero if unknown.
        leader_epoch: The leader epoch that the client knows; −1 if unknown.
        offset: Offset of the first record wanted.
        last_epoch: Leader epoch of the record before; −1 if unknown.
        bytes_max: Maximum size of the partition's records.
    """

    def __init__(  # noqa: PLR0913 - its attributes
        self,
        partition: AssignedPartition,
        number: int,
        *,
        topic_id: uuid.UUID,
        leader_epoch: int,
        offset: int,
        last_epoch: int,
        bytes_max: int,
    ) -> None:
        self.partition: AssignedPartition = partition
        self.number: int = number
        self.topic_id: uuid.UUID = topic_id
        self.leader_epoch: int = leader_epoch
        self.offset: int = offset
        self.last_epoch: int = last_epoch
        self.bytes_max: int = bytes_max

    def is_awaited(self) -> bool:
        """Return whether records from this offset are awaited; a change of position ends it."""
        partition = self.partition
        return (
            partition.number == self.number
            and partition.fetch_offset == self.offset
            and partition.state is _FETCHING
        )

    def move(self, offset: int, last_epoch: int) -> None:
        """Change the position, in `wanted` and in `asked`: the request with it is sent now.

        Args:
            offset: Offset of the first record wanted.
            last_epoch: Leader epoch of the record before; −1 if unknown.
        """
        self.offset = offset
        self.last_epoch = last_epoch

    def is_sent_like(self, other: "Wanted") -> bool:
        """Whether a request would have the same fields.

        Args:
            other: The same topic and partition.

        Returns:
            False if the broker must be told of the difference.
        """
        return (
            self.offset == other.offset
            and self.leader_epoch == other.leader_epoch
            and self.last_epoch == other.last_epoch
            and self.bytes_max == other.bytes_max
            and (self.topic_id is other.topic_id or self.topic_id.int == other.topic_id.int)
        )


class SessionRequest:
    """The session's part of a request; immutable.

    Attributes:
        session_id: The session's id; 0 for none.
        epoch: The session's epoch; −1 closes it.
        named: The partitions that the request names.
        forgotten: The partitions that the broker shall drop from the session.
    """

    def __init__(
        self,
        session_id: int,
        epoch: int,
        named: Mapping[TopicPartition, Wanted],
        forgotten: list[Wanted],
    ) -> None:
        self.session_id: int = session_id
        self.epoch: int = epoch
        self.named: Mapping[TopicPartition, Wanted] = named
        self.forgotten: list[Wanted] = forgotten

    @property
    def is_lone(self) -> bool:
        """Whether it names at most one partition, and forgets none."""
        return len(self.named) <= 1 and not self.forgotten

    @property
    def wanted(self) -> Wanted | None:
        """A partition that is named; None if there is none."""
        for wanted in self.named.values():
            return wanted
        return None

    def fields(self) -> dict[str, Any]:
        """Return the fields of a request of any version; topics have both name and id.

        Returns:
            `session_id`, `session_epoch`, `topics` and `forgotten_topics_data`.
        """
        return {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": _topics(self.named),
            "forgotten_topics_data": _forgotten(self.forgotten) if self.forgotten else [],
        }


class FetchSession:
    """The partitions fetched from one broker.

    The cost of a request grows with the number of changes since the last one, not with the number
    of partitions.

    Attributes:
        wanted: Wanted partitions by topic and partition, in the order in which the broker should
            serve them.
        asked: The partitions of the last request, those that it did not name again included; as the
            broker knows them. Replaced, not emptied, when the broker forgets the session.
        names_by_id: Names of the topics of `asked`, by the number of their id; of no others.
        epoch: The session's epoch in the next request; 0 for a full one.
    """

    def __init__(self) -> None:
        """Start without a session."""
        self.wanted: dict[TopicPartition, Wanted] = {}
        self.asked: dict[TopicPartition, Wanted] = {}
        self.names_by_id: dict[int, str] = {}
        self._counts_by_id: dict[int, int] = {}  # of the partitions of `asked`
        self._session_id = _NO_SESSION
        self.epoch: int = _FIRST_EPOCH
        self._changed: dict[TopicPartition, None] = {}
        self._nameless: dict[TopicPartition, None] = {}  # maybe without a topic id

    @property
    def is_new(self) -> bool:
        """Whether the next request is a full request."""
        return self._session_id == _NO_SESSION or self.epoch == _FIRST_EPOCH

    @property
    def is_next_lone(self) -> bool:
        """Whether the next request names at most one partition, and forgets none."""
        if self.is_new:
            return len(self.wanted) <= 1
        for key in self._changed:
            if _must_forget(self.asked.get(key), self.wanted.get(key)):
                return False
        return len(self._changed) <= 1

    def is_unchanged(self, session_id: int) -> bool:
        """Whether the broker knows all wanted partitions as they are, and will after a response.

        Args:
            session_id: The id from the response.

        Returns:
            True if the next request only has to name what the response changes.
        """
        return (
            session_id == self._session_id
            and _FIRST_EPOCH < self.epoch < _EPOCH_MAX
            and not self._changed
            and not self._nameless
        )

    def want(self, wanted: Wanted) -> None:
        """Add a partition at the end, or change it.

        Args:
            wanted: The partition; replaces its earlier fields.
        """
        key = wanted.partition.key
        before = self.wanted.get(key)
        if (
            before is not None
            and before.partition is wanted.partition
            and before.number == wanted.number
            and wanted.is_sent_like(before)
        ):
            return
        self.wanted.pop(key, None)
        self.wanted[key] = wanted
        self._changed[key] = None
        if wanted.topic_id.int == 0:
            self._nameless[key] = None

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

    def next_request(self) -> SessionRequest:
        """Return the session's part of the next request, and record it as sent.

        Returns:
            A request with all partitions, or with those that have changed.
        """
        if self.is_new:
            epoch = _FIRST_EPOCH
            named = self.asked = dict(self.wanted)
            self.names_by_id, self._counts_by_id = {}, {}
            for wanted in named.values():
                self._note_name(wanted)
            forgotten: list[Wanted] = []
        else:
            epoch = self.epoch
            named, forgotten = self._take_changes()
        self._changed.clear()
        return SessionRequest(self._session_id, epoch, named, forgotten)

    def _take_changes(self) -> tuple[dict[TopicPartition, Wanted], list[Wanted]]:
        """Update `asked`; returns the partitions to name, and those to forget."""
        named: dict[TopicPartition, Wanted] = {}
        forgotten: list[Wanted] = []
        for key in self._changed:
            wanted, asked = self.wanted.get(key), self.asked.get(key)
            if asked is not None and _must_forget(asked, wanted):
                forgotten.append(asked)
                self._forget_name(asked)
                asked = None
            if wanted is None:
                self.asked.pop(key, None)
                continue
            if asked is None:
                self._note_name(wanted)
            if asked is None or not wanted.is_sent_like(asked):
                named[key] = wanted
            self.asked[key] = wanted
        return named, forgotten

    def _note_name(self, wanted: Wanted) -> None:
        """Note the name of a partition's topic, since the broker will answer by its id."""
        number = wanted.topic_id.int
        self.names_by_id[number] = wanted.partition.key.topic
        self._counts_by_id[number] = self._counts_by_id.get(number, 0) + 1

    def _forget_name(self, asked: Wanted) -> None:
        """Forget the name of a topic with the last of its partitions."""
        number = asked.topic_id.int
        left = self._counts_by_id[number] - 1
        self._counts_by_id[number] = left
        if not left:
            del self._counts_by_id[number], self.names_by_id[number]

    @property
    def goes_by_ids(self) -> bool:
        """Whether the ids of all topics are known, those of forgotten partitions included."""
        for key in list(self._nameless):
            wanted, asked = self.wanted.get(key), self.asked.get(key)
            if any(it is not None and it.topic_id.int == 0 for it in (wanted, asked)):
                return False
            del self._nameless[key]
        return True

    def note_response(self, session_id: int) -> None:
        """Process the session id of a response.

        Args:
            session_id: The id from the response; 0 for no session.
        """
        if session_id == _NO_SESSION:
            self.forget()
            return
        self._session_id = session_id
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def forget(self) -> None:
        """Open a new session with the next request, since the broker has none."""
        self._session_id = _NO_SESSION
        self._begin_again()

    def note_failure(self) -> None:
        """Close the session and open a new one, since the broker may not know the last request."""
        self._begin_again()

    def closing_request(self) -> SessionRequest | None:
        """Return the part of a request that closes the session; None without a session."""
        if self._session_id == _NO_SESSION:
            return None
        return SessionRequest(self._session_id, _CLOSING_EPOCH, {}, [])

    def _begin_again(self) -> None:
        self.epoch = _FIRST_EPOCH
        self.asked = {}
        self._changed = dict.fromkeys(self.wanted)


def wanted_in(asked: Mapping[TopicPartition, Wanted], topic: str, partition: int) -> Wanted | None:
    """Find a partition without creating a named tuple, which is Python code.

    Args:
        asked: The partitions of a request.
        topic: The topic's name.
        partition: The partition's index.

    Returns:
        The partition; None if it was not requested.
    """
    return asked.get((topic, partition))  # type: ignore[call-overload,no-any-return]


def _must_forget(asked: Wanted | None, wanted: Wanted | None) -> bool:
    """Whether the broker must drop a partition that it has in the session."""
    return asked is not None and (wanted is None or asked.topic_id.int != wanted.topic_id.int)


def _forgotten(forgotten: Iterable[Wanted]) -> list[dict[str, Any]]:
    by_topic: dict[tuple[str, uuid.UUID], list[int]] = {}
    for each in forgotten:
        key = each.partition.key
        by_topic.setdefault((key.topic, each.topic_id), []).append(key.partition)
    return [
        {"topic": name, "topic_id": topic_id, "partitions": partitions}
        for (name, topic_id), partitions in by_topic.items()
    ]


def _topics(named: Mapping[TopicPartition, Wanted]) -> list[dict[str, Any]]:
    """Group partitions by topic, in the order of each topic's first partition."""
    by_topic: dict[str, dict[str, Any]] = {}
    for key, wanted in named.items():
        name = key.topic
        topic = by_topic.get(name)
        if topic is None:
            topic = {"topic": name, "topic_id": wanted.topic_id, "partitions": []}
            by_topic[name] = topic
        topic["partitions"].append(
            {
                "partition": key.partition,
                "current_leader_epoch": wanted.leader_epoch,
                "fetch_offset": wanted.offset,
                "last_fetched_epoch": wanted.last_epoch,
                "partition_max_bytes": wanted.bytes_max,
            }
        )
    return list(by_topic.values())
