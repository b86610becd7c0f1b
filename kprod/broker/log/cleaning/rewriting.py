"""Rewrites a batch with some of its records; the header keeps all fields that need not change.

Records are copied unchanged, since they are relative to a base offset and a base timestamp that
stay. When a delete horizon is set, it replaces the base timestamp, and each record's timestamp
delta is encoded again (KIP-534).

Thread-safety: pure functions.
Source: Kafka MemoryRecords.filterTo and DefaultRecordBatch.writeEmptyHeader (clients 4.3.1).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from kprod._core.layout import BatchAttributes, BatchLayout
from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.batch_rewrite import rewrite_crc
from kprod.compression import Buffer, compress, decompress
from kprod.model import Codec, TimestampType
from kprod.record.reader import read_batches

# The fields of a batch's header in their order, without padding.
_HEADER = struct.Struct(">qiibIhiqqqhii")
_NO_TIMESTAMP = -1
_CONTINUES, _LOW_BITS = 0x80, 0x7F
_KEPT_IN_EMPTY = (
    BatchAttributes.TIMESTAMP_TYPE_MASK
    | BatchAttributes.TRANSACTIONAL_MASK
    | BatchAttributes.CONTROL_MASK
)


class RecordSpan(NamedTuple):
    """The position of a record in its decompressed batch.

    Attributes:
        start: Position of the record's length.
        end: Position after the record's last byte.
        timestamp_ms: Its timestamp.
    """

    start: int
    end: int
    timestamp_ms: int


class PlainBatch(NamedTuple):
    """A batch and its uncompressed records.

    Attributes:
        batch: The batch.
        section: The uncompressed bytes of its records.
    """

    batch: RecordBatch
    section: Buffer


def plain(batch: RecordBatch) -> PlainBatch:
    """Decompress a batch's records; does nothing for an uncompressed batch."""
    if not batch.codec:
        return PlainBatch(batch, batch.records_view)
    section = decompress(Codec(batch.codec), batch.records_view)
    attributes = batch.attributes & ~BatchAttributes.CODEC_MASK
    encoded = _with_header(batch, section, _Facts(attributes, batch.base_timestamp_ms))
    return PlainBatch(next(read_batches(encoded, check_crc=False)), section)


def record_end(section: Buffer, start: int) -> int:
    """Find the end of a record whose length was validated.

    Args:
        section: The records of a batch.
        start: Position of the record.

    Returns:
        Position of the next record.
    """
    length, at = _varint(section, start)
    return at + length


def with_records(batch: RecordBatch, section: Buffer, spans: Sequence[RecordSpan]) -> memoryview:
    """Rewrite a batch with some of its records.

    Args:
        batch: The stored batch.
        section: Its uncompressed records.
        spans: The records to keep, in order; at least one.

    Returns:
        The new batch; its largest timestamp is that of the kept records.
    """
    kept = b"".join(section[span.start : span.end] for span in spans)
    facts = _Facts(batch.attributes, batch.base_timestamp_ms)
    return _encoded(batch, kept, spans, facts)


def with_horizon(
    batch: RecordBatch, section: Buffer, spans: Sequence[RecordSpan], horizon_ms: int
) -> memoryview:
    """Rewrite a batch with some of its records, and set its delete horizon.

    Args:
        batch: The stored batch, which has no horizon.
        section: Its uncompressed records.
        spans: The records to keep, in order; at least one.
        horizon_ms: The horizon, in milliseconds since 1970.

    Returns:
        The new batch.
    """
    kept = b"".join(_stamped(section, span, span.timestamp_ms - horizon_ms) for span in spans)
    facts = _Facts(batch.attributes | BatchAttributes.DELETE_HORIZON_MASK, horizon_ms)
    return _encoded(batch, kept, spans, facts)


def without_records(batch: RecordBatch) -> memoryview:
    """Rewrite a batch without records; the header keeps its offsets and its producer's sequence."""
    attributes = batch.attributes & _KEPT_IN_EMPTY
    facts = _Facts(attributes, _NO_TIMESTAMP, record_count=0)
    return memoryview(_with_header(batch, b"", facts))


def _encoded(
    batch: RecordBatch, kept: bytes, spans: Sequence[RecordSpan], facts: "_Facts"
) -> memoryview:
    largest_ms = max(span.timestamp_ms for span in spans)
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        largest_ms = batch.max_timestamp_ms
    stored = compress(Codec(batch.codec), kept) if batch.codec else kept
    facts = facts._replace(max_timestamp_ms=largest_ms, record_count=len(spans))
    return memoryview(_with_header(batch, stored, facts))


class _Facts(NamedTuple):
    """Header fields that change; None leaves a field unchanged."""

    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int | None = None
    record_count: int | None = None


def _with_header(batch: RecordBatch, section: Buffer, facts: _Facts) -> bytearray:
    length = BatchLayout.BATCH_OVERHEAD_BYTES - BatchLayout.LOG_OVERHEAD_BYTES + len(section)
    largest_ms, count = facts.max_timestamp_ms, facts.record_count
    encoded = bytearray(
        _HEADER.pack(
            batch.base_offset,
            length,
            batch.partition_leader_epoch,
            batch.magic,
            0,
            facts.attributes,
            batch.last_offset_delta,
            facts.base_timestamp_ms,
            batch.max_timestamp_ms if largest_ms is None else largest_ms,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.record_count if count is None else count,
        )
    )
    encoded += section
    rewrite_crc(encoded)
    return encoded


def _stamped(section: Buffer, span: RecordSpan, delta_ms: int) -> bytes:
    """Encode a record with another timestamp delta, which follows the attributes byte."""
    _, at = _varint(section, span.start)
    _, rest = _varint(section, at + 1)
    body = b"".join((section[at : at + 1], _zigzag(delta_ms), section[rest : span.end]))
    return _zigzag(len(body)) + body


def _varint(section: Buffer, at: int) -> tuple[int, int]:
    """Decode a zig-zag varint; returns the value and the position after it."""
    bits = shift = 0
    while True:
        byte = section[at]
        at += 1
        bits |= (byte & _LOW_BITS) << shift
        if byte < _CONTINUES:
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7


def _zigzag(value: int) -> bytes:
    bits = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while bits > _LOW_BITS:
        encoded.append(bits & _LOW_BITS | _CONTINUES)
        bits >>= 7
    encoded.append(bits)
    return bytes(encoded)
