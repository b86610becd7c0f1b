"""Reads a segment in slices of whole batches, so that requests can be served between two slices.

Thread-safety: the broker's thread.
Source: kprod's own.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.log.segment import Segment
from kprod.errors import CorruptRecord
from kprod.record.reader import read_batches

SLICE_BYTES = 64 << 10
"""About 1 ms of work for records of 100 bytes.

A slice is limited in bytes, not in time, so that a simulation is reproducible.
"""


class Slice(NamedTuple):
    """Batches that are processed in one step.

    Attributes:
        batches: At least one whole batch.
        size_bytes: Total size of the batches.
        is_last: Whether the segment ends after them.
    """

    batches: list[RecordBatch]
    size_bytes: int
    is_last: bool


def slices(segment: Segment, position: int = 0) -> Iterator[Slice]:
    """Read the batches of a segment that is not appended to.

    Args:
        segment: A segment that is not the active one.
        position: Position of the first batch, in bytes.

    Yields:
        Slices in order, of about `SLICE_BYTES` each; a larger batch is a slice of its own.

    Raises:
        CorruptRecord: A batch is corrupt.
    """
    wanted_bytes = SLICE_BYTES
    size_bytes = segment.size_bytes
    while position < size_bytes:
        batches: list[RecordBatch] = []
        taken_bytes = needed_bytes = 0
        for piece in segment.read(position, wanted_bytes):
            reader = read_batches(piece, check_crc=True)
            batches += reader
            taken_bytes += reader.position
            needed_bytes = reader.needed_bytes
        if not batches:
            if not wanted_bytes < needed_bytes <= size_bytes - position:
                raise CorruptRecord(
                    f"segment {segment.base_offset}: the batch at byte {position} says that it has "
                    f"{needed_bytes} bytes, the segment ends {size_bytes - position} bytes on"
                )
            wanted_bytes = needed_bytes
            continue
        position += taken_bytes
        wanted_bytes = SLICE_BYTES
        yield Slice(batches, taken_bytes, position >= size_bytes)
