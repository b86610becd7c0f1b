"""The limits of a log's segments: when one ends, by size, by age, by its indexes, by its offsets.

Rules. An append ends the segment first, if any of these holds; time alone ends nothing.
    The batch would take the segment past its size (`segment.bytes`).
    The batch's largest timestamp is more than `segment.ms`, less a jitter, above the first batch's
    one; where the first batch has no timestamp, the clock since the segment was made counts.
    One of its indexes is full (`segment.index.bytes`); the index by time keeps an entry free for
    the last one.
    The batch's last offset is too far above the segment's base for 32 bits (KAFKA-6530).
An empty segment is never ended: the next one would have its name (KAFKA-6388).

Thread-safety: immutable; functions of their arguments.
Source: Kafka LogSegment.shouldRoll (4.3).
"""

import functools
import zlib
from typing import NamedTuple

from kprod.broker.log.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from kprod.broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from kprod.broker.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from kprod.broker.topic_config import TopicConfig

_UNBOUNDED = 2**63 - 1
_MEMORY_SEGMENT_BYTES_MIN = 1 << 20
_MEMORY_SEGMENTS_RETAINED = 8


class SegmentRules(NamedTuple):
    """The limits of a log's segments.

    Attributes:
        segment_bytes: Size that no append takes a segment past.
        segment_ms: `segment.ms`.
        jitter_ms: `segment.jitter.ms`, at most `segment_ms`.
        offset_entries_max: Of the index by offset.
        time_entries_max: Of the index by time, one left free.
        index_interval_bytes: Bytes between two entries of an index; 0 makes one for each batch.
        file_delete_delay_ms: How long the files of a dropped segment stay.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = _UNBOUNDED
    jitter_ms: int = 0
    offset_entries_max: int = _UNBOUNDED
    time_entries_max: int = _UNBOUNDED
    index_interval_bytes: int = 0
    file_delete_delay_ms: int = 60_000

    @classmethod
    @functools.lru_cache(maxsize=1_024)  # the partitions of a topic share them
    def of_topic(cls, config: TopicConfig, *, is_durable: bool) -> "SegmentRules":
        """The rules of a topic's settings.

        Args:
            config: The settings.
            is_durable: Whether the log survives the process. In memory each batch has an index
                entry, and a segment has at most an eighth of the retained size: retention drops
                whole ones, and memory must stay close to its limit.

        Returns:
            The rules.
        """
        segment_bytes = config.segment_bytes_max
        if not is_durable and config.retention_bytes >= 0 and not config.internal_segment_bytes:
            part = config.retention_bytes // _MEMORY_SEGMENTS_RETAINED
            segment_bytes = min(segment_bytes, max(_MEMORY_SEGMENT_BYTES_MIN, part))
        segment_ms = config.segment_ms
        if config.compacts:
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        return cls(
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            jitter_ms=min(config.segment_jitter_ms, segment_ms),
            offset_entries_max=config.segment_index_bytes // OFFSET_ENTRY_BYTES,
            time_entries_max=config.segment_index_bytes // TIME_ENTRY_BYTES - 1,
            index_interval_bytes=config.index_interval_bytes if is_durable else 0,
            file_delete_delay_ms=config.file_delete_delay_ms,
        )


class NextBatch(NamedTuple):
    """A batch that is about to be appended.

    Attributes:
        size_bytes: Its size.
        last_offset: Of its last record.
        max_timestamp_ms: Its largest timestamp, −1 for none.
        now_ms: Wall clock.
    """

    size_bytes: int
    last_offset: int
    max_timestamp_ms: int
    now_ms: int


def must_roll(segment: Segment, rules: SegmentRules, batch: NextBatch, seed: object) -> bool:
    """Judge whether a batch needs a new segment.

    Args:
        segment: The active one.
        rules: Its limits.
        batch: The batch.
        seed: The partition's name; with the segment's base it gives the segment's jitter, so that
            a simulation repeats itself.

    Returns:
        Whether the segment ends before the batch.
    """
    if not segment.size_bytes:
        return False
    if segment.size_bytes > rules.segment_bytes - batch.size_bytes:
        return True
    if batch.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    offset_entries, time_entries = segment.entry_counts
    if offset_entries >= rules.offset_entries_max or time_entries >= rules.time_entries_max:
        return True
    first_ms = segment.first_timestamp_ms
    waited_ms = (
        batch.max_timestamp_ms - first_ms if first_ms >= 0 else batch.now_ms - segment.created_ms
    )
    return waited_ms > rules.segment_ms - _jitter_ms(segment, rules, seed)


def _jitter_ms(segment: Segment, rules: SegmentRules, seed: object) -> int:
    if not rules.jitter_ms:
        return 0
    return zlib.crc32(f"{seed}@{segment.base_offset}".encode()) % rules.jitter_ms
