"""V2 record batches, encoded and decoded with `struct` and loops, slowly and literally.

A reference for tests: no limits, no partial reads; whatever is not a sequence of whole, valid
batches raises `MalformedError`.

Source: Kafka DefaultRecordBatch and DefaultRecord (clients 4.3.1); KIP-98, KIP-110.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypedDict, Unpack

from tests.oracle import codecs
from tests.oracle.crc32c import crc32c

Headers = Sequence[tuple[str, bytes | None]]
RecordInput = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp in ms, key, value, headers."""

CODEC_BITS = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40


class MalformedError(ValueError):
    """The bytes are not valid V2 batches."""


class BatchFields(TypedDict, total=False):
    """The optional fields of a batch besides its records; each has a default."""

    base_offset: int
    codec: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    is_log_append_time: bool
    has_delete_horizon: bool
    partition_leader_epoch: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    offset_deltas: Sequence[int]
    last_offset_delta: int


class DecodedRecord(NamedTuple):
    """A record as it is in a batch, its offset and timestamp made absolute."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class DecodedBatch(NamedTuple):
    """Every field of a batch's header, and its records."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    records: tuple[DecodedRecord, ...]

    @property
    def codec(self) -> int:
        """The number of the codec."""
        return self.attributes & CODEC_BITS


def encode_batch(records: Iterable[RecordInput], **fields: Unpack[BatchFields]) -> bytes:
    """Return the batch of `records`, in order; offset deltas count from 0 unless given."""
    rows = list(records)
    timestamps = [row[0] for row in rows]
    base_timestamp = fields.get("base_timestamp_ms", timestamps[0] if rows else -1)
    deltas = list(fields.get("offset_deltas", range(len(rows))))
    body = b"".join(
        encode_record(row, timestamp_delta=row[0] - base_timestamp, offset_delta=delta)
        for row, delta in zip(rows, deltas, strict=True)
    )
    after_crc = struct.pack(
        ">hiqqqhii",
        _attributes(fields),
        fields.get("last_offset_delta", deltas[-1] if deltas else 0),
        base_timestamp,
        fields.get("max_timestamp_ms", max(timestamps, default=-1)),
        fields.get("producer_id", -1),
        fields.get("producer_epoch", -1),
        fields.get("base_sequence", -1),
        len(rows),
    )
    after_crc += codecs.compress(fields.get("codec", 0), body)
    after_length = struct.pack(
        ">ibI", fields.get("partition_leader_epoch", -1), 2, crc32c(after_crc)
    )
    after_length += after_crc
    return struct.pack(">qi", fields.get("base_offset", 0), len(after_length)) + after_length


def _attributes(fields: BatchFields) -> int:
    attributes = fields.get("codec", 0)
    if fields.get("is_log_append_time", False):
        attributes |= LOG_APPEND_TIME_BIT
    if fields.get("is_transactional", False):
        attributes |= TRANSACTIONAL_BIT
    if fields.get("is_control", False):
        attributes |= CONTROL_BIT
    if fields.get("has_delete_horizon", False):
        attributes |= DELETE_HORIZON_BIT
    return attributes


def encode_record(row: RecordInput, *, timestamp_delta: int, offset_delta: int) -> bytes:
    """Return one record with its length in front."""
    _, key, value, headers = row
    body = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    body += _encode_nullable(key) + _encode_nullable(value)
    body += encode_varint(len(headers))
    for name, content in headers:
        body += _encode_nullable(name.encode()) + _encode_nullable(content)
    return encode_varint(len(body)) + body


def encode_varint(number: int) -> bytes:
    """Return the zig-zag varint of any 64-bit signed number."""
    rest = number * 2 if number >= 0 else -number * 2 - 1
    groups = []
    while rest >= 0x80:
        groups.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*groups, rest])


def _encode_nullable(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content


def decode_batches(
    payload: bytes, *, checksum: Callable[[bytes], int] = crc32c
) -> list[DecodedBatch]:
    """Return all batches in `payload`, which must end where the last one ends.

    Args:
        payload: Whole batches.
        checksum: CRC-32C; a faster one than this package's, where there is much to decode.

    Raises:
        MalformedError: They are not valid.
    """
    batches = []
    at = 0
    while at < len(payload):
        if len(payload) - at < 61:
            raise MalformedError(f"{len(payload) - at} bytes left, a batch has at least 61")
        (length,) = struct.unpack_from(">i", payload, at + 8)
        if length < 49 or at + 12 + length > len(payload):
            raise MalformedError(f"batch length {length} with {len(payload) - at - 12} bytes left")
        batches.append(_decode_batch(payload[at : at + 12 + length], checksum))
        at += 12 + length
    return batches


def _decode_batch(batch: bytes, checksum: Callable[[bytes], int]) -> DecodedBatch:
    base_offset, length, leader_epoch, magic, crc = struct.unpack_from(">qiibI", batch, 0)
    if magic != 2:
        raise MalformedError(f"magic {magic}")
    if (found := checksum(batch[21:])) != crc:
        raise MalformedError(f"checksum {found}, header says {crc}")
    header = struct.unpack_from(">hiqqqhii", batch, 21)
    attributes, _, base_timestamp, max_timestamp = header[:4]
    count = header[7]
    body = codecs.decompress(attributes & CODEC_BITS, batch[61:])
    records = []
    at = 0
    for _ in range(count):
        record, at = _decode_record(body, at, base_offset, base_timestamp)
        if attributes & LOG_APPEND_TIME_BIT:
            record = record._replace(timestamp_ms=max_timestamp)
        records.append(record)
    if at != len(body):
        raise MalformedError(f"{len(body) - at} bytes after the last record")
    return DecodedBatch._make((base_offset, length, leader_epoch, crc, *header, tuple(records)))


def _decode_record(
    body: bytes, at: int, base_offset: int, base_timestamp: int
) -> tuple[DecodedRecord, int]:
    length, at = decode_varint(body, at, bits=32)
    end = at + length
    if length < 0 or end > len(body):
        raise MalformedError(f"record length {length} with {len(body) - at} bytes left")
    at += 1  # the record's attributes, unused
    timestamp_delta, at = decode_varint(body, at, bits=64)
    offset_delta, at = decode_varint(body, at, bits=32)
    key, at = _decode_nullable(body, at)
    value, at = _decode_nullable(body, at)
    header_count, at = decode_varint(body, at, bits=32)
    if not 0 <= header_count <= end - at:
        raise MalformedError(f"header count {header_count}")
    headers = []
    for _ in range(header_count):
        name, at = _decode_nullable(body, at)
        content, at = _decode_nullable(body, at)
        if name is None:
            raise MalformedError("null header key")
        headers.append((name.decode(), content))
    if at != end:
        raise MalformedError(f"record ends at {at}, its length says {end}")
    offset, timestamp_ms = base_offset + offset_delta, base_timestamp + timestamp_delta
    return DecodedRecord(offset, timestamp_ms, key, value, tuple(headers)), at


def decode_varint(payload: bytes, at: int, *, bits: int) -> tuple[int, int]:
    """Return the zig-zag varint at `at` and the position after it."""
    rest = 0
    for group in range(5 if bits == 32 else 10):
        if at >= len(payload):
            raise MalformedError("varint runs past the end")
        byte = payload[at]
        at += 1
        rest |= (byte & 0x7F) << (7 * group)
        if byte < 0x80:
            rest &= 2**bits - 1
            return (rest >> 1) ^ -(rest & 1), at
    raise MalformedError(f"varint longer than {bits} bits")


def _decode_nullable(payload: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(payload, at, bits=32)
    if length == -1:
        return None, at
    if length < 0 or at + length > len(payload):
        raise MalformedError(f"length {length} with {len(payload) - at} bytes left")
    return payload[at : at + length], at + length
