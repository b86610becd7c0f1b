# cython: annotation_typing=False, nonecheck=True
"""A whole Produce request as pieces to be sent in turn, so that record bytes are never copied.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Between the pieces of records are small runs of bytes: the size prefix, the header, and the names of
topics and partitions. All pieces joined equal the output of the table-driven codec for the same
request, size prefix and header included; the tests compare them.

Thread-safety: a function of its argument; the pieces must not change until they are sent.
Source: Kafka's ProduceRequest definition (kafka-clients 4.3.1), KIP-482, KIP-516 for topic ids.
"""

import functools
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kprod._core.memory.chunk import ChunkPart
from kprod._core.wire.produce_pieces import produce_pieces
from kprod._core.wire.wire_plan import encode_uvarint
from kprod.errors import LocalProtocolError
from kprod.protocol.api import ApiKey
from kprod.protocol.headers import encode_request_header
from kprod.protocol.schema import BytesLike

VERSIONS: Final = (3, 13)
"""First and last version that can be written; the first that carries record batches is 3."""

_FLEXIBLE_FROM: Final = 9
_TOPIC_ID_FROM: Final = 13
_SIZE_BYTES: Final = 4
_TOPIC_ID_BYTES: Final = 16
_STRING_BYTES_MAX: Final = 0x7FFF
_NAMES_KEPT: Final = 4_096


Piece = BytesLike | ChunkPart
"""Bytes of a frame that are sent where they lie."""

PartitionRecords = tuple[int, Sequence[Piece], int]
"""The records for one partition: its index, consecutive pieces of its record batch (bytes-like with
items of one byte), and their total length. A tuple: there is one for each batch."""


class TopicRecords:  # noqa: B903 - those would be made by Python code
    """The records for one topic.

    Attributes:
        name: The topic's name; written before version 13.
        topic_id: The topic's id; written from version 13 on.
        partitions: At most one entry for each partition.
    """

    def __init__(self, name: str, topic_id: UUID, partitions: Sequence[PartitionRecords]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class ProduceFrame:  # noqa: B903 - as above
    """All that a Produce request says.

    Attributes:
        version: A version within `VERSIONS`.
        correlation_id: An int32, ≥ 0.
        client_id: The client's name, or None.
        acks: −1 for all in-sync replicas, 1 for the leader, 0 for no response.
        timeout_ms: How long the broker may wait for replicas; an int32.
        transactional_id: The transactional id; None outside transactions.
        topics: At most one entry for each topic.
    """

    def __init__(  # noqa: PLR0913 - its attributes
        self,
        *,
        version: int,
        correlation_id: int,
        client_id: str | None,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None,
        topics: Sequence[TopicRecords],
    ) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.transactional_id = transactional_id
        self.topics = topics


def produce_request(request: ProduceFrame) -> list[Piece]:
    """Write a Produce request's frame.

    Args:
        request: The request's fields, with the pieces of records.

    Returns:
        The pieces of the frame in order, size prefix first; the record pieces are the caller's own.

    Raises:
        LocalProtocolError: The version cannot be written, a value is out of range, a partition's
            pieces are not as long as it says, or the frame would exceed an int32.
    """
    opening = produce_opening(
        request.version,
        request.client_id,
        request.transactional_id,
        request.acks,
        request.timeout_ms,
    )
    return produce_rest(opening, request.version, request.correlation_id, request.topics)


def produce_rest(
    opening: bytes, version: int, correlation_id: int, topics: Sequence[TopicRecords]
) -> list[Piece]:
    """Write a Produce request's frame whose beginning is written already.

    Args:
        opening: The result of `produce_opening`.
        version: The same.
        correlation_id: An int32, ≥ 0.
        topics: At most one entry for each topic.

    Returns:
        The request's pieces, as from `produce_request`.

    Raises:
        LocalProtocolError: The arguments are invalid, as for `produce_request`.
    """
    flexible = version >= _FLEXIBLE_FROM
    by_id = version >= _TOPIC_ID_FROM
    named = [
        (
            topic.topic_id.int.to_bytes(_TOPIC_ID_BYTES) if by_id else _name(topic.name, flexible),
            topic.partitions,
        )
        for topic in topics
    ]
    return produce_pieces(opening, correlation_id, named, flexible)


def produce_opening(  # noqa: PLR0917 - all that a request says before its topics
    version: int,
    client_id: str | None,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
) -> bytes:
    """Write everything before the topics, with zeros for the size and the correlation id.

    Args:
        version: A version within `VERSIONS`.
        client_id: The client id, as in `ProduceFrame`.
        transactional_id: The same.
        acks: The same.
        timeout_ms: The same.

    Returns:
        The beginning of the frame, for `produce_rest`.

    Raises:
        LocalProtocolError: The version cannot be written, or a value is out of range.
    """
    if not VERSIONS[0] <= version <= VERSIONS[1]:
        text = f"Produce frames have versions {VERSIONS[0]} to {VERSIONS[1]}, not {version}"
        raise LocalProtocolError(text)
    flexible = version >= _FLEXIBLE_FROM
    return b"".join(
        (
            bytes(_SIZE_BYTES),
            encode_request_header(ApiKey.PRODUCE, version, 0, client_id),
            _string("transactional_id", transactional_id, flexible=flexible),
            _signed("acks", acks, 2),
            _signed("timeout_ms", timeout_ms, 4),
        )
    )


@functools.lru_cache(_NAMES_KEPT)
def _name(topic: str, flexible: bool) -> bytes:  # noqa: FBT001 - a key of the cache
    return _string("name", topic, flexible=flexible)


def _string(field: str, text: str | None, *, flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    encoded = text.encode()
    size = len(encoded)
    if size > _STRING_BYTES_MAX:
        raise LocalProtocolError(
            f"Produce {field} is {size} bytes, {_STRING_BYTES_MAX} are allowed"
        )
    return (encode_uvarint(size + 1) if flexible else size.to_bytes(2)) + encoded


def _signed(field: str, value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, signed=True)
    except OverflowError as error:
        text = f"Produce {field}: {value} does not fit {size} bytes"
        raise LocalProtocolError(text) from error
