"""Finds the aborted transactions whose records a read_committed consumer must skip.

Complexity: linear in the transactions of the segments from the one that is read on, up to the first
    transaction whose entry says that no later marker concerns the bytes that were read.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog.collectAbortedTransactions (4.3).
"""

import bisect
from collections.abc import Sequence
from operator import attrgetter

from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment
from kprod.broker.log.transaction_index import AbortedTransaction

_BASE_OFFSET = attrgetter("base_offset")


def aborted_in(
    log: PartitionLog, offset: int, count_bytes: int, limit_offset: int
) -> list[AbortedTransaction]:
    """Find the aborted transactions that concern a read.

    Args:
        log: The log that was read.
        offset: First offset of the read.
        count_bytes: Number of bytes that were read.
        limit_offset: The read's upper limit, exclusive.

    Returns:
        The transactions with a record in the range, in the order of their markers. Some may begin
        shortly after the range.
    """
    first = max(bisect.bisect_right(log.segments, offset, key=_BASE_OFFSET) - 1, 0)
    segments = log.segments[first:]
    upper = min(_offset_behind(segments, offset, count_bytes, log.log_end_offset), limit_offset)
    found: list[AbortedTransaction] = []
    for segment in segments:
        for it in segment.aborted:
            if it.last_offset >= offset and it.first_offset < upper:
                found.append(it)
            if it.last_stable_offset >= upper:
                return found
    return found


def _offset_behind(
    segments: Sequence[Segment], offset: int, count_bytes: int, end_offset: int
) -> int:
    for segment in segments:
        place = segment.place_of(offset)
        if place is not None:
            return segment.offset_behind(place[0] + count_bytes)
    return end_offset
