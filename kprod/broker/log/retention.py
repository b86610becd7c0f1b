"""Drops segments that are before the log's start, beyond its size, or too old.

Rules, applied in this order (KAFKA-12177) to whole segments, oldest first.
    Segments that end at or before the log's start are dropped under any policy (KAFKA-7400).
    With the policy `delete`, the oldest segment is dropped while the log without it has at least
    `retention.bytes`; then while its largest timestamp (without timestamps, its last append) is
    more than `retention.ms` ago.
    A timestamp in the future retains its segment and all later ones.
    A segment that reaches beyond the high watermark is retained.
    If all segments are due, a new empty one is created.

Thread-safety: the broker's thread.
Source: Kafka UnifiedLog.deleteOldSegments (4.3).
"""

from collections.abc import Callable
from typing import NamedTuple

from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment
from kprod.broker.topic_config import TopicConfig
from kprod.guarded_log import guarded_logger

_IsDue = Callable[[Segment, int], bool]
_UNLIMITED = -1
_logger = guarded_logger("kprod.broker")


class RetentionLimits(NamedTuple):
    """The retention limits of a log.

    Attributes:
        retention_ms: Maximum age in milliseconds; negative means no limit.
        retention_bytes: Retained size; negative means no limit.
    """

    retention_ms: int = _UNLIMITED
    retention_bytes: int = _UNLIMITED

    @classmethod
    def of_topic(cls, config: TopicConfig) -> "RetentionLimits":
        """Create the limits from a topic's settings; without the policy `delete` there are none."""
        return cls(config.retention_ms, config.retention_bytes) if config.deletes else cls()


def apply_retention(
    log: PartitionLog, limits: RetentionLimits, *, high_watermark: int, now_ms: int
) -> int:
    """Drop the segments that are due.

    Args:
        log: The log.
        limits: Its limits.
        high_watermark: Records at or beyond it are not replicated yet and are retained.
        now_ms: Wall clock time.

    Returns:
        The number of dropped segments.

    Raises:
        OSError: A file cannot be renamed, or the new segment cannot be created.
    """

    def is_before_start(segment: Segment, next_base: int) -> bool:
        return segment is not log.segments[-1] and next_base <= log.log_start_offset

    def is_beyond_size(segment: Segment, _: int) -> bool:
        return log.size_bytes - limits.retention_bytes >= segment.size_bytes

    def is_too_old(segment: Segment, _: int) -> bool:
        if _newest_ms(segment) > now_ms:
            _warn_of_future(log, segment, now_ms)
        return now_ms - _newest_ms(segment) > limits.retention_ms

    rules: list[_IsDue] = [is_before_start]
    if limits.retention_bytes >= 0:
        rules.append(is_beyond_size)
    if limits.retention_ms >= 0:
        rules.append(is_too_old)
    return sum(_drop_while(log, rule, high_watermark, now_ms) for rule in rules)


def _newest_ms(segment: Segment) -> int:
    """Return the largest timestamp; without one, the time of the last append."""
    largest_ms = segment.largest.timestamp_ms
    return largest_ms if largest_ms >= 0 else segment.created_ms


def _warn_of_future(log: PartitionLog, segment: Segment, now_ms: int) -> None:
    _logger.warning(
        "the segment of %s that begins at offset %d has a timestamp %d ms in the future, so that "
        "retention.ms keeps it and all after it",
        log,
        segment.base_offset,
        _newest_ms(segment) - now_ms,
    )


def _drop_while(log: PartitionLog, is_due: _IsDue, high_watermark: int, now_ms: int) -> int:
    count = 0
    while log.segments:
        oldest = log.segments[0]
        is_active = len(log.segments) == 1
        next_base = log.log_end_offset if is_active else log.segments[1].base_offset
        is_empty_active = is_active and not oldest.size_bytes
        if is_empty_active or next_base > high_watermark or not is_due(oldest, next_base):
            break
        if is_active:
            log.roll(now_ms)
        log.drop_oldest()
        count += 1
    return count
