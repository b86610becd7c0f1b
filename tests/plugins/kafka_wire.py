"""The few requests that start and watch a broker, spoken over one socket.

Why not a client library. Waiting for a broker needs short answers about one node, without threads,
retries or caches; and what tests kprod must not need kprod to start.

Versions: ApiVersions 0, Metadata 1, CreateTopics 2, DeleteTopics 1, the oldest that Kafka 4.3.1
serves, since none of them has tagged fields.

Source: kafka-clients 4.3.1, common/message/{Metadata,CreateTopics,DeleteTopics}*.json.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 3, 18, 19, 20
ANSWER_BYTES_MAX = 64 << 20
"""More than any response of these; a size beyond it is not Kafka's."""


class BrokerAnswerError(Exception):
    """A broker answered with an error code, or not as Kafka does."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as one broker sees it.

    Attributes:
        leader_id: -1 while there is none.
        replica_ids: In the order of preference.
        in_sync_ids: The replicas that this broker believes in sync.
    """

    leader_id: int
    replica_ids: tuple[int, ...]
    in_sync_ids: tuple[int, ...]

    @property
    def is_in_sync(self) -> bool:
        """Every replica is in sync and one leads."""
        return self.leader_id >= 0 and set(self.in_sync_ids) == set(self.replica_ids)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as one broker sees it.

    Attributes:
        broker_ids: Ids of the brokers that are not fenced.
        controller_id: -1 if unknown.
        topics: Partitions by index; a topic with an error is left out.
    """

    broker_ids: frozenset[int]
    controller_id: int
    topics: Mapping[str, Mapping[int, PartitionView]]


def api_versions(address: str, *, timeout_s: float) -> int:
    """Ask a broker what it serves, which is the least it can answer.

    Args:
        address: `host:port`.
        timeout_s: Longest wait for connecting and for the response, each.

    Returns:
        How many APIs it serves.

    Raises:
        OSError: It is not there, or does not answer in time.
        BrokerAnswerError: It answered with an error.
    """
    answer = _ask(address, (API_VERSIONS, 0), b"", timeout_s=timeout_s)
    _check(answer.number("h"), "ApiVersions", None)
    return answer.number("i")


def metadata(address: str, topics: Sequence[str] | None = None, *, timeout_s: float) -> ClusterView:
    """Ask one broker for its view; it never creates a topic that exists nowhere if told not to.

    Args:
        address: `host:port`.
        topics: None for all.
        timeout_s: Longest wait for connecting and for the response, each.

    Returns:
        Its view.
    """
    names = struct.pack(">i", -1) if topics is None else _array([_string(name) for name in topics])
    answer = _ask(address, (METADATA, 1), names, timeout_s=timeout_s)
    broker_ids = frozenset(_broker_id(answer) for _ in range(answer.number("i")))
    controller_id = answer.number("i")
    views = (_topic(answer) for _ in range(answer.number("i")))
    return ClusterView(
        broker_ids, controller_id, {name: view for name, view in views if view is not None}
    )


def create_topic(
    address: str,
    name: str,
    *,
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Create a topic.

    Args:
        address: `host:port` of any broker.
        name: Name of the topic.
        partitions: At least 1.
        replication: At most the number of brokers.
        settings: The topic's own, by Kafka's dotted names.
        timeout_s: Longest wait for connecting and for the response, each.

    Raises:
        BrokerAnswerError: It was rejected.
    """
    pairs = _array([_string(key) + _string(value) for key, value in settings.items()])
    topic = _string(name) + struct.pack(">ih", partitions, replication) + _array([]) + pairs
    body = _array([topic]) + struct.pack(">i?", int(timeout_s * 1000), False)
    answer = _ask(address, (CREATE_TOPICS, 2), body, timeout_s=timeout_s)
    answer.number("i")  # throttle
    for _ in range(answer.number("i")):
        topic_name, code, reason = answer.string(), answer.number("h"), answer.string()
        _check(code, f"CreateTopics {topic_name}", reason)


def delete_topics(address: str, names: Sequence[str], *, timeout_s: float) -> None:
    """Delete topics.

    Args:
        address: `host:port` of any broker.
        names: Names of the topics.
        timeout_s: Longest wait for connecting and for the response, each.

    Raises:
        BrokerAnswerError: It was rejected.
    """
    body = _array([_string(name) for name in names]) + struct.pack(">i", int(timeout_s * 1000))
    answer = _ask(address, (DELETE_TOPICS, 1), body, timeout_s=timeout_s)
    answer.number("i")  # throttle
    for _ in range(answer.number("i")):
        topic_name, code = answer.string(), answer.number("h")
        _check(code, f"DeleteTopics {topic_name}", None)


class _Response:
    """Reads a response's body from front to back."""

    __slots__ = ("_body", "_offset")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._offset = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._body, self._offset)
        self._offset += struct.calcsize(kind)
        return int(value)

    def string(self) -> str:
        length = max(self.number("h"), 0)  # null reads as empty
        start, self._offset = self._offset, self._offset + length
        return self._body[start : self._offset].decode()

    def numbers(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.number("i")))


def _broker_id(answer: _Response) -> int:
    node_id = answer.number("i")
    answer.string()  # host
    answer.number("i")  # port
    answer.string()  # rack
    return node_id


def _topic(answer: _Response) -> tuple[str, dict[int, PartitionView] | None]:
    code, name = answer.number("h"), answer.string()
    answer.number("?")  # internal
    partitions = {}
    for _ in range(answer.number("i")):
        answer.number("h")  # the leader's absence shows in its id
        index, leader_id = answer.number("i"), answer.number("i")
        partitions[index] = PartitionView(leader_id, answer.numbers(), answer.numbers())
    return name, None if code else partitions


def _ask(address: str, api: tuple[int, int], body: bytes, *, timeout_s: float) -> _Response:
    host, _, port = address.rpartition(":")
    frame = struct.pack(">hhih", *api, 1, -1) + body  # correlation id 1, no client id
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        with connection.makefile("rb") as stream:
            size_bytes, correlation_id = struct.unpack(">ii", _exactly(stream.read(8), 8))
            if correlation_id != 1 or not 4 <= size_bytes <= ANSWER_BYTES_MAX:
                raise BrokerAnswerError(f"{address} answered with {size_bytes=} {correlation_id=}")
            return _Response(_exactly(stream.read(size_bytes - 4), size_bytes - 4))


def _exactly(received: bytes, size_bytes: int) -> bytes:
    if len(received) != size_bytes:
        raise ConnectionError(f"closed after {len(received)} of {size_bytes} bytes")
    return received


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _check(code: int, asked: str, reason: str | None) -> None:
    if code:
        raise BrokerAnswerError(f"{asked}: error code {code}{f', {reason}' if reason else ''}")
