# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Finds the last offset in a Fetch response from the batch headers, without decoding records.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Thread-safety: pure functions.
Source: RecordBatch and LegacyRecord (clients 4.3.1) for the positions of the fields.
"""

import struct

from kprod._core.layout import BatchLayout, Magic

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_EPOCH = struct.Struct(">i")
_DELTA = struct.Struct(">i")
_EPOCH_AT = 12
_DELTA_AT = 23
_V2_BYTES_MIN = 61


class BatchEnd:  # noqa: B903 - a named tuple would be made by Python code
    """The end of the last whole batch; immutable.

    Attributes:
        next_offset: Offset after the batch's last one.
        leader_epoch: The batch's leader epoch; −1 for a format without one.
    """

    def __init__(self, next_offset: int, leader_epoch: int) -> None:
        self.next_offset: int = next_offset
        self.leader_epoch: int = leader_epoch


def last_batch(records: memoryview) -> BatchEnd | None:
    """Find the end of the last whole batch or message.

    An impossible header ends the search; decoding the records then reports it.

    Args:
        records: Consecutive batches; the last may be cut off.

    Returns:
        The end; None if there is no whole batch.
    """
    position, last = 0, -1
    size = len(records)
    overhead_bytes = BatchLayout.LOG_OVERHEAD_BYTES
    unpack = _OFFSET_AND_LENGTH.unpack_from
    while size - position >= overhead_bytes:
        _, length = unpack(records, position)
        following = position + overhead_bytes + length
        if length < 0 or following > size:
            break
        last, position = position, following
    return None if last < 0 else _end_of(records, last, position - last)


def _end_of(records: memoryview, position: int, size: int) -> BatchEnd:
    offset, _ = _OFFSET_AND_LENGTH.unpack_from(records, position)
    magic_position = position + BatchLayout.MAGIC_OFFSET
    if size < _V2_BYTES_MIN or records[magic_position] != Magic.MAGIC_V2:
        return BatchEnd(offset + 1, -1)
    (epoch,) = _EPOCH.unpack_from(records, position + _EPOCH_AT)
    (delta,) = _DELTA.unpack_from(records, position + _DELTA_AT)
    return BatchEnd(offset + delta + 1, epoch)
