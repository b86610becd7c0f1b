"""Writes a batch again with some of its records: the same header but for what must change.

Records are copied as they are, since they are relative to a base offset and a base timestamp that
stay. Only where a delete horizon is set, which takes the place of the base timestamp, each record's
timestamp is encoded again (KIP-534).

Thread-safety: functions of their arguments.
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
    """Where a record's bytes are among those of its batch, decompressed.

    Attributes:
        start: Of its length.
        end: Behind its last byte.
        timestamp_ms: Its timestamp.
    """

    start: int
    end: int
    timestamp_ms: int


class PlainBatch(NamedTuple):
    """A batch whose records are not compressed, or were decompressed.

    Attributes:
        batch: With these records.
        section: Their bytes.
    """

    batch: RecordBatch
    section: Buffer


def plain(batch: RecordBatch) -> PlainBatch:
    """Decompress a batch's records, once."""
    if not batch.codec:
        return PlainBatch(batch, batch.records_view)
    section = decompress(Codec(batch.codec), batch.records_view)
    attributes = batch.attributes & ~BatchAttributes.CODEC_MASK
    encoded = _with_header(batch, section, _Facts(attributes, batch.base_timestamp_ms))
    return PlainBatch(next(read_batches(encoded, check_crc=False)), section)


def record_end(section: Buffer, start: int) -> int:
    """Find the end of a record whose length is known to be sound.

    Args:
        section: Records of a batch.
        start: Of the record.

    Returns:
        Position of the next record.
    """
    length, at = _varint(section, start)
    return at + length


def with_records(batch: RecordBatch, section: Buffer, spans: Sequence[RecordSpan]) -> memoryview:
    """Keep some of a batch's records.

    Args:
        batch: As it is stored.
        section: Its records, decompressed.
        spans: Those that stay, in order; at least one.

    Returns:
        The new batch; the largest timestamp is that of the records that stay.
    """
    kept = b"".join(section[span.start : span.end] for span in spans)
    facts = _Facts(batch.attributes, batch.base_timestamp_ms)
    return _encoded(batch, kept, spans, facts)


def with_horizon(
    batch: RecordBatch, section: Buffer, spans: Sequence[RecordSpan], horizon_ms: int
) -> memoryview:
    """Keep some of a batch's records, and set when its tombstones or its marker may go.

    Args:
        batch: As it is stored, without a horizon.
        section: Its records, decompressed.
        spans: Those that stay, in order; at least one.
        horizon_ms: Milliseconds since 1970.

    Returns:
        The new batch.
    """
    kept = b"".join(_stamped(section, span, span.timestamp_ms - horizon_ms) for span in spans)
    facts = _Facts(batch.attributes | BatchAttributes.DELETE_HORIZON_MASK, horizon_ms)
    return _encoded(batch, kept, spans, facts)


def without_records(batch: RecordBatch) -> memoryview:
    """Keep a batch's header alone, for its offsets and its producer's sequence."""
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
    """Fields of a header that change; None for those that do not."""

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
    """A record with another timestamp delta; it follows one byte of attributes."""
    _, at = _varint(section, span.start)
    _, rest = _varint(section, at + 1)
    body = b"".join((section[at : at + 1], _zigzag(delta_ms), section[rest : span.end]))
    return _zigzag(len(body)) + body


def _varint(section: Buffer, at: int) -> tuple[int, int]:
    """A zig-zag number, and the position behind it."""
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
