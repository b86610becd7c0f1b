"""When the active segment ends: by size, by age, by its indexes, by its offsets.

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

import zlib
from typing import NamedTuple

from kprod.broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from kprod.broker.topic_config import TopicConfig

_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12
_FOREVER_MS = 2**63 - 1


class RollRules(NamedTuple):
    """The limits of a log's segments.

    Attributes:
        segment_ms: `segment.ms`.
        jitter_ms: `segment.jitter.ms`.
        offset_entries_max: Of the index by offset.
        time_entries_max: Of the index by time, one left free.
        seed: The partition's name; with a segment's base it gives the segment's jitter, so that a
            simulation repeats itself.
    """

    segment_ms: int = _FOREVER_MS
    jitter_ms: int = 0
    offset_entries_max: int = _FOREVER_MS
    time_entries_max: int = _FOREVER_MS
    seed: str = ""

    @classmethod
    def of_topic(cls, config: TopicConfig, seed: str) -> "RollRules":
        """The rules of a topic's settings."""
        return cls(
            config.segment_ms,
            min(config.segment_jitter_ms, config.segment_ms),
            config.segment_index_bytes // _OFFSET_ENTRY_BYTES,
            config.segment_index_bytes // _TIME_ENTRY_BYTES - 1,
            seed,
        )


def must_roll(
    segment: Segment, rules: RollRules, *, last_offset: int, timestamp_ms: int, now_ms: int
) -> bool:
    """Judge whether a batch needs a new segment for another reason than its size.

    Args:
        segment: The active one, not empty.
        rules: Its limits.
        last_offset: Of the batch.
        timestamp_ms: The batch's largest.
        now_ms: Wall clock.

    Returns:
        Whether the segment ends before the batch.
    """
    if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        return True
    if segment.offset_entries >= rules.offset_entries_max:
        return True
    if segment.time_entries >= rules.time_entries_max:
        return True
    waited_ms = (
        timestamp_ms - segment.first_timestamp_ms
        if segment.first_timestamp_ms >= 0
        else now_ms - segment.created_ms
    )
    return waited_ms > rules.segment_ms - _jitter(segment, rules)


def _jitter(segment: Segment, rules: RollRules) -> int:
    if not rules.jitter_ms:
        return 0
    return zlib.crc32(f"{rules.seed}@{segment.base_offset}".encode()) % rules.jitter_ms
