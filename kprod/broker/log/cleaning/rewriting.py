"""Rewrites a batch with some of its records; the header keeps all fields that need not change.

Records are copied unchanged, since they are relative to a base offset and a base timestamp that
stay. When a delete horizon is set, it replaces the base timestamp, and each record's timestamp
delta is encoded again (KIP-534).

Thread-safety: pure functions.
Source: Kafka MemoryRecords.filterTo and DefaultRecordBatch.writeEmptyHeader (clients 4.3.1).
"""

import struct
from typing import NamedTuple

from kprod._core.layout import BatchAttributes, BatchLayout
from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.batch_rewrite import rewrite_crc
from kprod._core.record.kept_records import KeptRecords
from kprod.compression import Buffer, compress
from kprod.model import Codec, TimestampType

# The fields of a batch's header in their order, without padding.
_HEADER = struct.Struct(">qiibIhiqqqhii")
_NO_TIMESTAMP = -1
_KEPT_IN_EMPTY = (
    BatchAttributes.TIMESTAMP_TYPE_MASK
    | BatchAttributes.TRANSACTIONAL_MASK
    | BatchAttributes.CONTROL_MASK
)


def with_records(batch: RecordBatch, kept: KeptRecords) -> memoryview:
    """Rewrite a batch with some of its records.

    Args:
        batch: The stored batch.
        kept: The records to keep; at least one.

    Returns:
        The new batch; its largest timestamp is that of the kept records.
    """
    facts = _Facts(batch.attributes, batch.base_timestamp_ms)
    return _encoded(batch, kept.copied(), kept, facts)


def with_horizon(batch: RecordBatch, kept: KeptRecords, horizon_ms: int) -> memoryview:
    """Rewrite a batch with some of its records, and set its delete horizon.

    Args:
        batch: The stored batch, which has no horizon.
        kept: The records to keep; at least one.
        horizon_ms: The horizon, in milliseconds since 1970.

    Returns:
        The new batch.
    """
    facts = _Facts(batch.attributes | BatchAttributes.DELETE_HORIZON_MASK, horizon_ms)
    return _encoded(batch, kept.stamped(horizon_ms), kept, facts)


def without_records(batch: RecordBatch) -> memoryview:
    """Rewrite a batch without records; the header keeps its offsets and its producer's sequence."""
    attributes = batch.attributes & _KEPT_IN_EMPTY
    facts = _Facts(attributes, _NO_TIMESTAMP, record_count=0)
    return memoryview(_with_header(batch, b"", facts))


def _encoded(batch: RecordBatch, section: bytes, kept: KeptRecords, facts: "_Facts") -> memoryview:
    largest_ms = kept.max_timestamp_ms
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        largest_ms = batch.max_timestamp_ms
    stored = compress(Codec(batch.codec), section) if batch.codec else section
    facts = facts._replace(max_timestamp_ms=largest_ms, record_count=kept.record_count)
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
