"""V0 and V1 message sets, encoded and decoded with `struct` and loops, slowly and literally.

A reference for tests: no limits, no partial reads; whatever is not a sequence of whole, valid
messages raises `MalformedError`.

Source: Kafka LegacyRecord and AbstractLegacyRecordBatch (clients 3.9.1); KIP-31, KIP-32.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from tests.oracle import codecs
from tests.oracle.record_v2 import MalformedError

CODEC_BITS = 0x07
LOG_APPEND_TIME_BIT = 0x08
NO_TIMESTAMP = -1

RecordInput = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp in ms, key, value."""


class DecodedRecord(NamedTuple):
    """A message that holds a record, its offset and timestamp as a consumer sees them."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def encode(
    records: Iterable[RecordInput],
    *,
    magic: int,
    codec: int = 0,
    log_append_time_ms: int | None = None,
    wrapper_offset: int | None = None,
) -> bytes:
    """Return the messages of `records`, in one wrapper message if there is a codec.

    With magic 1 the wrapper's inner offsets count from the first record's. `wrapper_offset` puts
    another number than the last record's there, as some producers did.
    """
    rows = list(records)
    bit = 0 if log_append_time_ms is None else LOG_APPEND_TIME_BIT
    if not codec:
        stamped = [
            (offset, timestamp_ms if log_append_time_ms is None else log_append_time_ms, key, value)
            for offset, timestamp_ms, key, value in rows
        ]
        return b"".join(encode_message(row, magic=magic, attributes=bit) for row in stamped)
    base = rows[0][0] if magic == 1 else 0
    inner = b"".join(
        encode_message((offset - base, timestamp_ms, key, value), magic=magic)
        for offset, timestamp_ms, key, value in rows
    )
    timestamp = max(row[1] for row in rows) if log_append_time_ms is None else log_append_time_ms
    last = rows[-1][0] if wrapper_offset is None else wrapper_offset
    wrapped = codecs.compress(codec, inner, magic)
    return encode_message((last, timestamp, None, wrapped), magic=magic, attributes=codec | bit)


def encode_message(row: RecordInput, *, magic: int, attributes: int = 0) -> bytes:
    """Return one log entry: offset, size, message."""
    offset, timestamp_ms, key, value = row
    after_crc = struct.pack(">bb", magic, attributes)
    if magic == 1:
        after_crc += struct.pack(">q", timestamp_ms)
    for content in (key, value):
        after_crc += struct.pack(">i", -1 if content is None else len(content))
        after_crc += content or b""
    message = struct.pack(">I", zlib.crc32(after_crc)) + after_crc
    return struct.pack(">qi", offset, len(message)) + message


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def decode(payload: bytes) -> list[DecodedRecord]:
    """Return the records of all messages in `payload`, wrappers opened."""
    records = []
    for message in _decode_messages(payload):
        if message.attributes & CODEC_BITS:
            records += _decode_wrapper(message)
        else:
            records.append(
                DecodedRecord(message.offset, message.timestamp_ms, message.key, message.value)
            )
    return records


def _decode_wrapper(wrapper: _Message) -> list[DecodedRecord]:
    if wrapper.value is None:
        raise MalformedError("wrapper without a value")
    inner = codecs.decompress(wrapper.attributes & CODEC_BITS, wrapper.value, wrapper.magic)
    messages = _decode_messages(inner)
    if not messages:
        raise MalformedError("empty wrapper")
    base = 0
    if wrapper.magic == 1 and wrapper.offset:
        base = wrapper.offset - messages[-1].offset
    if base < 0:
        raise MalformedError(f"wrapper offset {wrapper.offset} below the last inner offset")
    records = []
    for message in messages:
        if message.attributes & CODEC_BITS:
            raise MalformedError("wrapper inside a wrapper")
        if message.magic != wrapper.magic:
            raise MalformedError(f"magic {message.magic} inside magic {wrapper.magic}")
        timestamp_ms = message.timestamp_ms
        if wrapper.magic == 1 and wrapper.attributes & LOG_APPEND_TIME_BIT:
            timestamp_ms = wrapper.timestamp_ms
        records.append(
            DecodedRecord(base + message.offset, timestamp_ms, message.key, message.value)
        )
    return records


def _decode_messages(payload: bytes) -> list[_Message]:
    messages = []
    at = 0
    while at < len(payload):
        if len(payload) - at < 26:
            raise MalformedError(f"{len(payload) - at} bytes left, a message has at least 26")
        offset, size, crc, magic, attributes = struct.unpack_from(">qiIbb", payload, at)
        end = at + 12 + size
        if magic not in {0, 1}:
            raise MalformedError(f"magic {magic}")
        if size < (22 if magic else 14) or end > len(payload):
            raise MalformedError(f"message size {size} with {len(payload) - at - 12} bytes left")
        if zlib.crc32(payload[at + 16 : end]) != crc:
            raise MalformedError(f"checksum of the message at {at}")
        timestamp_ms = NO_TIMESTAMP
        at += 18
        if magic == 1:
            (timestamp_ms,) = struct.unpack_from(">q", payload, at)
            at += 8
        key, at = _decode_nullable(payload, at, end)
        value, at = _decode_nullable(payload, at, end)
        if at != end:
            raise MalformedError(f"message ends at {at}, its size says {end}")
        messages.append(_Message(offset, magic, attributes, timestamp_ms, key, value))
    return messages


def _decode_nullable(payload: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    if at + 4 > end:
        raise MalformedError("length runs past the end of the message")
    (length,) = struct.unpack_from(">i", payload, at)
    at += 4
    if length == -1:
        return None, at
    if length < 0 or at + length > end:
        raise MalformedError(f"length {length} with {end - at} bytes left")
    return payload[at : at + length], at + length
