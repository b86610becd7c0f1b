"""Finds the aborted transactions whose records a reader of committed records must pass over.

Complexity: the transactions of the segments from the read one on, up to one whose entry says that
no later marker concerns the read bytes.

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
    """Find the aborted transactions that a reader must know of.

    Args:
        log: The log that was read.
        offset: Where the read began.
        count_bytes: How many bytes were read.
        limit_offset: As it was for the read.

    Returns:
        Those with a record among the read ones, in the order of their markers; perhaps some whose
        records come soon after.
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
