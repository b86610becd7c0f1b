"""A stored batch's header: what a scan of the log needs to know of a batch.

Thread-safety: immutable; functions of their arguments.
Source: Kafka DefaultRecordBatch for the layout.
"""

import struct
from typing import NamedTuple

from kprod._core.layout import BatchLayout

HEADER_BYTES = int(BatchLayout.BATCH_OVERHEAD_BYTES)
"""Bytes that `read_header` needs."""

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, two timestamps, the
# producer's id, epoch and sequence, which are passed over, and the number of records.
_FIELDS = struct.Struct(">qiibIhiqq14xi")

_NO_TIMESTAMP = -1


class BatchHeader(NamedTuple):
    """One batch in a segment.

    Attributes:
        position: Of its first byte in the segment.
        size_bytes: Of the whole batch.
        base_offset: Of its first record.
        last_offset: Of its last record.
        leader_epoch: The epoch in which it was appended.
        max_timestamp_ms: The largest timestamp; −1 without records, since compaction may have left
            the header alone, with the timestamp of a record that is gone.
    """

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp_ms: int


def read_header(encoded: memoryview, position: int) -> BatchHeader:
    """Read the header of a batch that was validated when it was appended.

    Args:
        encoded: At least `HEADER_BYTES` from the batch's first byte on.
        position: Of that byte in the segment.

    Returns:
        The header.
    """
    base_offset, length, epoch, _, _, _, last_delta, _, max_timestamp_ms, count = (
        _FIELDS.unpack_from(encoded)
    )
    if not count:
        max_timestamp_ms = _NO_TIMESTAMP
    size_bytes = BatchLayout.LOG_OVERHEAD_BYTES + length
    last_offset = base_offset + last_delta
    return BatchHeader(position, size_bytes, base_offset, last_offset, epoch, max_timestamp_ms)
