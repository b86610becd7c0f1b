"""Which part of a log may be compacted, and how much it needs it.

Rules.
    The first dirty offset is where the last round ended; the log's start, if that lies beyond the
    log's end or before its start, which is then written down (KAFKA-6266).
    Whole segments only, and of these none that reaches beyond the last stable offset or the high
    watermark (KAFKA-13194), nor the active one, nor the first dirty one that has a record younger
    than `min.compaction.lag.ms`, nor any behind it.
    A log is compacted when more than `min.cleanable.dirty.ratio` of these bytes are dirty, or its
    oldest dirty batch is older than `max.compaction.lag.ms` (KIP-354). An empty one never is.

Thread-safety: the broker's thread.
Source: Kafka LogCleanerManager.cleanableOffsets and LogToClean (4.3).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment


class Lags(NamedTuple):
    """When records may be compacted, and when they must be.

    Attributes:
        min_ms: Younger ones are left alone.
        max_ms: Older ones are not left dirty.
        dirty_ratio: Share of dirty bytes from which on a log is compacted.
    """

    min_ms: int = 0
    max_ms: int = 2**63 - 1
    dirty_ratio: float = 0.5


class Cleanable(NamedTuple):
    """Segments that may be compacted.

    Attributes:
        segments: All of them, oldest first, the clean ones too.
        first_dirty_offset: Where the last round ended.
        end_offset: Base of the first segment that must be left alone.
        clean_bytes: Bytes of segments before the first dirty offset.
        dirty_bytes: Bytes of the others.
        is_overdue: Whether a record is older than the longest lag.
    """

    segments: Sequence[Segment]
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """Share of dirty bytes; 0 of nothing."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    def needs_cleaning(self, lags: Lags) -> bool:
        """Whether it is dirty enough."""
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.dirty_ratio > lags.dirty_ratio


def cleanable(log: PartitionLog, lags: Lags, *, limit_offset: int, now_ms: int) -> Cleanable:
    """Look what may be compacted.

    Args:
        log: Its `cleaned_offset` is set right if it is out of bounds.
        lags: The topic's.
        limit_offset: Last stable offset, at most the high watermark.
        now_ms: Wall clock.

    Returns:
        The segments, perhaps none.
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
