"""Reads the header of a stored batch.

Thread-safety: immutable; pure functions.
Source: Kafka DefaultRecordBatch for the layout.
"""

import struct
from typing import NamedTuple

from kprod._core.layout import BatchLayout

HEADER_BYTES = int(BatchLayout.BATCH_OVERHEAD_BYTES)
"""Bytes that `read_header` needs."""

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, two timestamps; the
# producer's id, epoch and sequence (skipped); the number of records.
_FIELDS = struct.Struct(">qiibIhiqq14xi")

_NO_TIMESTAMP = -1


class BatchHeader(NamedTuple):
    """The header of one batch in a segment.

    Attributes:
        position: Position of the batch in the segment, in bytes.
        size_bytes: Size of the whole batch.
        base_offset: Offset of its first record.
        last_offset: Offset of its last record.
        leader_epoch: The epoch in which it was appended.
        max_timestamp_ms: The largest timestamp; −1 without records, because compaction may leave a
            header alone, whose timestamp is that of a dropped record.
    """

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp_ms: int


def read_header(encoded: memoryview, position: int) -> BatchHeader:
    """Read the header of a batch that was validated on append.

    Args:
        encoded: At least `HEADER_BYTES` bytes from the batch's beginning.
        position: Position of the batch in the segment.

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
