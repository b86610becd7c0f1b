"""A whole Produce request as pieces to be sent in turn, so that record bytes are never copied.

Between the pieces of records stand small runs of bytes: the size prefix, the header, and what names
topics and partitions. All pieces joined equal what the table-driven codec writes for the same
request, size prefix and header included; the tests hold it to that.

Thread-safety: a function of its argument; the pieces must not change until they are sent.
Source: Kafka's ProduceRequest definition (kafka-clients 4.3.1), KIP-482, KIP-516 for topic ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from kprod._core.wire import encode_uvarint
from kprod.errors import LocalProtocolError
from kprod.protocol.api import ApiKey
from kprod.protocol.headers import encode_request_header
from kprod.protocol.schema import BytesLike

VERSIONS: Final = (3, 13)
"""First and last version that can be written; the first that carries record batches is 3."""

_FLEXIBLE_FROM: Final = 9
_TOPIC_ID_FROM: Final = 13
_FRAME_BYTES_MAX: Final = 0x7FFFFFFF  # the size prefix is an int32
_STRING_BYTES_MAX: Final = 0x7FFF
_NO_TAGS: Final = b"\x00"


class PartitionRecords(NamedTuple):
    """The records for one partition.

    Attributes:
        partition_index: ≥ 0.
        pieces: Consecutive pieces of its record batch, bytes-like with items of one byte.
        size_bytes: Their total length.
    """

    partition_index: int
    pieces: Sequence[BytesLike]
    size_bytes: int


class TopicRecords(NamedTuple):
    """The records for one topic.

    Attributes:
        name: The topic's name; written before version 13.
        topic_id: The topic's id; written from version 13 on.
        partitions: At most one entry for each partition.
    """

    name: str
    topic_id: UUID
    partitions: Sequence[PartitionRecords]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """All that a Produce request says.

    Attributes:
        version: Within `VERSIONS`.
        correlation_id: An int32, ≥ 0.
        client_id: The client's name, or None.
        acks: −1 for all in-sync replicas, 1 for the leader, 0 for no answer.
        timeout_ms: How long the broker may wait for replicas; an int32.
        transactional_id: None outside transactions.
        topics: At most one entry for each topic.
    """

    version: int
    correlation_id: int
    client_id: str | None
    acks: int
    timeout_ms: int
    transactional_id: str | None
    topics: Sequence[TopicRecords]


def produce_request(request: ProduceRequest) -> list[BytesLike]:
    """Write a Produce request's frame.

    Args:
        request: What to say, and the record pieces.

    Returns:
        The pieces of the frame in order, size prefix first; the record pieces are the caller's own.

    Raises:
        LocalProtocolError: The version cannot be written, a value is out of range, a partition's
            pieces are not as long as it says, or the frame would exceed an int32.
    """
    if not VERSIONS[0] <= request.version <= VERSIONS[1]:
        text = f"Produce frames have versions {VERSIONS[0]} to {VERSIONS[1]}, not {request.version}"
        raise LocalProtocolError(text)
    writer = _FrameWriter(request.version)
    writer.begin(request)
    for topic in request.topics:
        writer.topic(topic)
    return writer.finish()


class _FrameWriter:
    """Collects runs of small bytes between the caller's pieces."""

    __slots__ = ("_flexible", "_pieces", "_records_bytes", "_run", "_runs_bytes", "_version")

    def __init__(self, version: int) -> None:
        self._version = version
        self._flexible = version >= _FLEXIBLE_FROM
        self._pieces: list[BytesLike] = []
        self._run = bytearray()
        self._runs_bytes = 0
        self._records_bytes = 0

    def begin(self, request: ProduceRequest) -> None:
        """Write everything before the first topic."""
        self._run += bytes(4)  # the size prefix, known at the end
        self._run += encode_request_header(
            ApiKey.PRODUCE, self._version, request.correlation_id, request.client_id
        )
        self._string("transactional_id", request.transactional_id)
        self._run += _signed("acks", request.acks, 2)
        self._run += _signed("timeout_ms", request.timeout_ms, 4)
        self._run += self._length(len(request.topics))

    def topic(self, topic: TopicRecords) -> None:
        """Write one topic and its partitions."""
        if self._version >= _TOPIC_ID_FROM:
            self._run += topic.topic_id.bytes
        else:
            self._string("name", topic.name)
        self._run += self._length(len(topic.partitions))
        for partition in topic.partitions:
            self._partition(partition)
        if self._flexible:
            self._run += _NO_TAGS

    def finish(self) -> list[BytesLike]:
        """End the request and fill in the frame's size."""
        if self._flexible:
            self._run += _NO_TAGS
        self._end_run()
        size = self._runs_bytes + self._records_bytes - 4
        if size > _FRAME_BYTES_MAX:
            text = f"a Produce frame of {size} bytes exceeds {_FRAME_BYTES_MAX}"
            raise LocalProtocolError(text)
        self._pieces[0] = size.to_bytes(4) + bytes(self._pieces[0])[4:]
        return self._pieces

    def _partition(self, partition: PartitionRecords) -> None:
        size = sum(map(len, partition.pieces))
        if size != partition.size_bytes:
            text = (
                f"the records for partition {partition.partition_index} are {size} bytes in "
                f"{len(partition.pieces)} pieces, but {partition.size_bytes} were announced"
            )
            raise LocalProtocolError(text)
        self._run += _signed("partition_index", partition.partition_index, 4)
        self._run += self._length(size)
        self._end_run()
        self._pieces += partition.pieces
        self._records_bytes += size
        if self._flexible:
            self._run += _NO_TAGS

    def _end_run(self) -> None:
        if self._run:
            self._pieces.append(bytes(self._run))
            self._runs_bytes += len(self._run)
            self._run.clear()

    def _length(self, count: int) -> bytes:
        return encode_uvarint(count + 1) if self._flexible else _signed("length", count, 4)

    def _string(self, field: str, text: str | None) -> None:
        if text is None:
            self._run += b"\x00" if self._flexible else b"\xff\xff"
            return
        encoded = text.encode()
        if len(encoded) > _STRING_BYTES_MAX:
            message = f"Produce {field} is {len(encoded)} bytes, {_STRING_BYTES_MAX} are allowed"
            raise LocalProtocolError(message)
        size = len(encoded)
        self._run += encode_uvarint(size + 1) if self._flexible else size.to_bytes(2)
        self._run += encoded


def _signed(field: str, value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, signed=True)
    except OverflowError as error:
        text = f"Produce {field}: {value} does not fit {size} bytes"
        raise LocalProtocolError(text) from error
