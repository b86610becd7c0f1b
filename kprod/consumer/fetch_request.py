# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""A Fetch request: its bytes, its bounds, and the leaders that its response names.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Thread-safety: the I/O thread.
Source: FetchRequest.json and FetchResponse.json (kafka-clients 4.3.1); KIP-74, KIP-951.
"""

import functools
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kprod._core.wire.fetch_frames import (
    lone_fetch_frame,
    partition_fields,
    read_lone_fetch,
    repeated_fetch_frame,
    session_fields,
)
from kprod._core.wire.wire_bounds import Bounds
from kprod._core.wire.wire_plan import encode_uvarint
from kprod.cluster.snapshot import NO_TOPIC_ID, LeaderHint
from kprod.config import FetchSettings
from kprod.consumer.fetch_session import (
    IDS_FIRST_VERSION,
    NAMES_VERSIONS,
    FetchSession,
    SessionRequest,
    Wanted,
)
from kprod.model import Node, TopicPartition
from kprod.network.client_request import ANSWER_BYTES, ClientRequest, Outcome
from kprod.network.framing import Frame
from kprod.network.outgoing import OutgoingFrame
from kprod.protocol.api import ApiKey
from kprod.protocol.headers import encode_request_header

LONE_FETCH_FROM = 12  # the first version that `lone_fetch_frame` writes
_FETCH = ApiKey.FETCH
_TAGGED_REPLICA_FROM = 15  # from this version on the replica's id is a tagged field
_SIZE_BYTES = 4
_ID_BYTES = 16
_NO_REPLICA = -1  # marks a consumer, not a follower
_PARTITION_BYTES = 2_048  # the fields of one partition, and a view of its records
_ABORTED_BYTES = 16 << 20  # the aborted transactions of a response: about 50,000


def fetch_fields(settings: FetchSettings, bytes_max: int) -> dict[str, Any]:
    """Return the fields of a request that do not depend on the session.

    Args:
        settings: Wait times and isolation level.
        bytes_max: Maximum size of the response; a first batch may be larger.

    Returns:
        Fields of a Fetch request of versions 4 to 17.
    """
    return {
        "replica_id": _NO_REPLICA,
        "max_wait_ms": settings.fetch_max_wait_ms,
        "min_bytes": settings.fetch_min_bytes,
        "max_bytes": bytes_max,
        "isolation_level": int(settings.reads_committed),
        "rack_id": settings.client_rack,
    }


class FetchTerms:
    """The parameters that all requests of a fetcher share.

    Attributes:
        settings: The consumer's settings of fetches.
        reads_committed: Whether records of open and aborted transactions are skipped.
        timeout_ms: Time from sending a request to its response.
        bytes_max: Maximum size of a response; a first batch may be larger.
    """

    def __init__(self, settings: FetchSettings) -> None:
        """Keep the parameters.

        Args:
            settings: The consumer's settings of fetches.
        """
        self.settings = settings
        self.reads_committed: bool = settings.reads_committed
        self.timeout_ms: int = settings.request_timeout_ms + settings.fetch_max_wait_ms
        self.bytes_max: int = settings.fetch_max_bytes
        self._topic_id: uuid.UUID | None = None  # of the newest frame, which `_id_bytes` encodes
        self._id_bytes = b""
        self._opening = b""
        self._opening_version = -1
        self._closing = _compact(settings.client_rack) + b"\0"

    def opening(self, version: int, client_id: str) -> bytes:
        """Return the beginning of a lone fetch's frame, which all requests of a version share.

        Args:
            version: A version that `lone_fetch_frame` writes.
            client_id: The client id.

        Returns:
            All bytes before `max_bytes`, with zeros for the size and the correlation id.
        """
        if version != self._opening_version:
            replica = (_NO_REPLICA,) if version < _TAGGED_REPLICA_FROM else ()
            numbers = (*replica, self.settings.fetch_max_wait_ms, self.settings.fetch_min_bytes)
            header = encode_request_header(_FETCH, version, 0, client_id)
            self._opening = bytes(_SIZE_BYTES) + header + struct.pack(f">{len(numbers)}i", *numbers)
            self._opening_version = version
        return self._opening

    def frame(  # noqa: PLR0917 - called for each request; keywords cost time
        self, part: SessionRequest, bytes_max: int, version: int, number: int, client_id: str
    ) -> bytes:
        """Write the frame of a lone fetch.

        Args:
            part: The session's part; `is_lone`.
            bytes_max: Maximum size of the response.
            version: A version that `lone_fetch_frame` writes.
            number: The correlation id.
            client_id: The client id.

        Returns:
            The frame, its size prefix included.
        """
        wanted, named = part.wanted, b""
        if wanted is not None:
            key = wanted.partition.key
            by_id = version >= IDS_FIRST_VERSION
            topic = self._encoded_id(wanted.topic_id) if by_id else _compact(key.topic)
            named = topic + partition_fields(
                key.partition,
                wanted.leader_epoch,
                wanted.offset,
                wanted.last_epoch,
                wanted.bytes_max,
            )
        session = session_fields(bytes_max, self.reads_committed, part.session_id, part.epoch)
        opening = self.opening(version, client_id)
        return lone_fetch_frame(opening, number, session, named, self._closing)

    def _encoded_id(self, topic_id: uuid.UUID) -> bytes:
        """Encode a topic id; consecutive fetches have the same one."""
        if topic_id is not self._topic_id:
            self._id_bytes = topic_id.int.to_bytes(_ID_BYTES, "big")
            self._topic_id = topic_id
        return self._id_bytes


class FetchRequest(ClientRequest):
    """A Fetch request; a lone one, and its response, are written and read without the tables.

    Attributes:
        session: The session that it belongs to.
        asked: The session's partitions, as the broker knows them when it has read the request.
        bytes_max: Maximum size of the response; a first batch may be larger.
        terms: The fetcher's common parameters.
        repeated: The partition that the frame names; None unless `FetchRepeat` may send the frame
            again with another offset.
        topic: Its topic's id as an integer; 0 if there is none.
        partition: Its index; −1 if there is none.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its attributes; keywords cost time
        self,
        node_id: int,
        session: FetchSession,
        part: SessionRequest,
        bytes_max: int,
        versions: tuple[int, int],
        terms: FetchTerms,
        on_fetched: "Callable[[FetchRequest, Outcome], object]",
    ) -> None:
        """Create a request.

        Args:
            node_id: The session's broker.
            session: The session.
            part: The session's part of the request, which the session counts as sent.
            bytes_max: As the attribute.
            versions: First and last version to choose from.
            terms: As the attribute.
            on_fetched: Called once with the request and its outcome, whose body is a `LoneFetch` or
                the fields.
        """
        self.node_id = node_id
        self.api_key = _FETCH
        self.versions = versions
        self.expects_response = True
        self.body = self.bounds = self.check = None
        self.on_complete = on_fetched
        self.timeout_ms = terms.timeout_ms
        self.session: FetchSession = session
        self.bytes_max: int = bytes_max
        self.repeated: Wanted | None = None
        self.topic: int = 0
        self.partition: int = -1
        self._frame = b""  # the newest one, if `repeated` is set
        self._opening_bytes = 0  # the part of it before `max_bytes`
        self._part = part
        self.asked: dict[TopicPartition, Wanted] = session.asked
        self.terms: FetchTerms = terms

    def encode(self, version: int, correlation_id: int, client_id: str) -> OutgoingFrame:
        """See `ClientRequest.encode`."""
        part, terms = self._part, self.terms
        if version >= LONE_FETCH_FROM and part.is_lone:
            wanted = part.wanted
            if wanted is not None and version >= IDS_FIRST_VERSION:
                self.repeated = wanted
                self.topic = wanted.topic_id.int
                self.partition = wanted.partition.key.partition
            self._opening_bytes = len(terms.opening(version, client_id))
            self._frame = terms.frame(part, self.bytes_max, version, correlation_id, client_id)
            return OutgoingFrame([self._frame])
        self.body = fetch_fields(terms.settings, self.bytes_max) | part.fields()
        return ClientRequest.encode(self, version, correlation_id, client_id)

    def repeated_frame(
        self, number: int, session_epoch: int, offset: int, last_epoch: int
    ) -> bytes:
        """Encode the request once more; only if `repeated` is set.

        Args:
            number: The correlation id.
            session_epoch: The session's epoch.
            offset: Offset of the first record wanted.
            last_epoch: Leader epoch of the record before; −1 if unknown.

        Returns:
            The frame, for a response of the same maximum size.
        """
        self._frame = repeated_fetch_frame(
            self._frame, self._opening_bytes, number, session_epoch, offset, last_epoch
        )
        return self._frame

    def decode(self, version: int, frame: Frame) -> Any:  # noqa: ANN401 - one of two
        """Decode a response: a `LoneFetch` if it is one, otherwise its fields."""
        lone = read_lone_fetch(frame, version)
        if lone is not None:
            return lone
        self.bounds = fetch_bounds(len(self.asked), reads_committed=self.terms.reads_committed)
        return ClientRequest.decode(self, version, frame)

    def complete(self, outcome: Outcome) -> None:
        """See `ClientRequest.complete`."""
        self.on_complete(self, outcome)


def closing_fetch(terms: FetchTerms, node_id: int, part: SessionRequest) -> ClientRequest:
    """Return the request that closes a session; its response does not matter.

    Args:
        terms: The fetcher's common parameters.
        node_id: The session's broker.
        part: The result of `FetchSession.closing_request`.

    Returns:
        The request.
    """
    return ClientRequest(
        node_id=node_id,
        api_key=_FETCH,
        versions=NAMES_VERSIONS,
        body={**fetch_fields(terms.settings, 0), "max_wait_ms": 0, **part.fields()},
        on_complete=_ignore,
    )


@functools.lru_cache(maxsize=16)  # consecutive requests have the same number of partitions
def fetch_bounds(partition_count: int, *, reads_committed: bool) -> Bounds:
    """Return the bounds of a response, its records excluded.

    Args:
        partition_count: Number of partitions in the request.
        reads_committed: Whether aborted transactions are needed.

    Returns:
        The bounds for decoding the response.
    """
    return Bounds(
        memory_bytes=ANSWER_BYTES
        + _PARTITION_BYTES * partition_count
        + (_ABORTED_BYTES if reads_committed else 0),
        totals={"responses": partition_count, "partitions": partition_count},
        unread=set() if reads_committed else {"aborted_transactions"},
    )


def aborted_transactions(answer: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the aborted transactions in a partition's part of a response.

    Args:
        answer: A partition of a Fetch response.

    Returns:
        Producer id and first offset of each.
    """
    transactions = answer["aborted_transactions"] or ()
    return tuple([(it["producer_id"], it["first_offset"]) for it in transactions])


def leader_hints(body: Mapping[str, Any], names: Mapping[int, str] | None) -> list[LeaderHint]:
    """Return the leaders that a response names for partitions that it rejects.

    Args:
        body: A Fetch response.
        names: Topics' names by the number of their id; None if the response has names.

    Returns:
        The leaders; those of unknown topics are left out.
    """
    hints: list[LeaderHint] = []
    for topic in body["responses"]:
        for answer in topic["partitions"]:
            if not answer["error_code"]:
                continue
            leader = answer.get("current_leader")
            name = topic["topic"] if names is None else names.get(topic["topic_id"].int)
            if name and leader and leader["leader_id"] >= 0:
                index, epoch = answer["partition_index"], leader["leader_epoch"]
                topic_id = topic.get("topic_id", NO_TOPIC_ID)
                hints.append(LeaderHint(name, index, leader["leader_id"], epoch, topic_id))
    return hints


def sound_nodes(body: Mapping[str, Any]) -> list[Node]:
    """Return the broker addresses in a response.

    Args:
        body: A Fetch response.

    Returns:
        The nodes with valid addresses.
    """
    nodes = [
        Node(it["node_id"], it["host"], it["port"], it.get("rack"))
        for it in body.get("node_endpoints") or ()
    ]
    return [node for node in nodes if node.is_sound]


def _ignore(_: object) -> None:
    """Ignore the response to closing a session."""


def _compact(text: str) -> bytes:
    """Encode a text with its compact length."""
    encoded = text.encode()
    return encode_uvarint(len(encoded) + 1) + encoded
