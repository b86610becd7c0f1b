"""Decides which part of a log may be compacted, and how urgently.

Rules.
    The first dirty offset is where the last round ended. If that lies outside the log, it is set to
    the log's start and stored (KAFKA-6266).
    Only whole segments are compacted: none that reaches beyond the last stable offset or the high
    watermark (KAFKA-13194), not the active one, and none from the first dirty segment on that has a
    record younger than `min.compaction.lag.ms`.
    A log is compacted when more than `min.cleanable.dirty.ratio` of these bytes are dirty, or when
    its oldest dirty batch is older than `max.compaction.lag.ms` (KIP-354). An empty log is never
    compacted.

Thread-safety: the broker's thread.
Source: Kafka LogCleanerManager.cleanableOffsets and LogToClean (4.3).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment


class Lags(NamedTuple):
    """Limits for the age of dirty records, and for their share.

    Attributes:
        min_ms: Records younger than this are not compacted.
        max_ms: A log with a dirty record older than this is compacted.
        dirty_ratio: A log is compacted from this share of dirty bytes on.
    """

    min_ms: int = 0
    max_ms: int = 2**63 - 1
    dirty_ratio: float = 0.5


class Cleanable(NamedTuple):
    """The segments of a log that may be compacted.

    Attributes:
        segments: All segments that may be compacted, oldest first, clean ones included.
        first_dirty_offset: Offset at which the last round ended.
        end_offset: Base offset of the first segment that may not be compacted.
        clean_bytes: Bytes of the segments before the first dirty offset.
        dirty_bytes: Bytes of the remaining segments.
        is_overdue: Whether a dirty record is older than `max_ms`.
    """

    segments: Sequence[Segment]
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """Share of dirty bytes; 0 if there are no bytes."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def needs_cleaning(self, lags: Lags) -> bool:
        """Whether the log is due for compaction."""
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.dirty_ratio > lags.dirty_ratio


def cleanable(log: PartitionLog, lags: Lags, *, limit_offset: int, now_ms: int) -> Cleanable:
    """Find the segments of a log that may be compacted.

    Args:
        log: The log; a `cleaned_offset` out of bounds is corrected.
        lags: The topic's lags.
        limit_offset: The last stable offset, at most the high watermark.
        now_ms: Wall clock time.

    Returns:
        The segments; the list may be empty.
    """
    if not log.log_start_offset <= log.cleaned_offset <= log.log_end_offset:
        log.cleaned_offset = log.log_start_offset
    first_dirty = log.cleaned_offset
    segments: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    end_offset = log.log_start_offset
    oldest_ms = now_ms
    for segment, following in itertools.pairwise(log.segments):
        is_dirty = following.base_offset > first_dirty
        is_young = lags.min_ms > 0 and segment.largest.timestamp_ms > now_ms - lags.min_ms
        if following.base_offset > limit_offset or (is_dirty and is_young):
            break
        segments.append(segment)
        end_offset = following.base_offset
        if not is_dirty:
            clean_bytes += segment.size_bytes
            continue
        dirty_bytes += segment.size_bytes
        first = next(segment.headers(), None)
        if first is not None and first.max_timestamp_ms >= 0:
            oldest_ms = min(oldest_ms, first.max_timestamp_ms)
    is_overdue = now_ms - oldest_ms > lags.max_ms
    return Cleanable(segments, first_dirty, end_offset, clean_bytes, dirty_bytes, is_overdue)
