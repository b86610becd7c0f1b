"""The rules for ending a log's active segment: by size, age, index size and offset range.

Rules.
    An append ends the segment first if one of these holds; time alone ends nothing.
    The batch would make the segment larger than `segment.bytes`.
    The batch's largest timestamp is more than `segment.ms` minus a jitter above the first batch's;
    if the first batch has no timestamp, the time since the segment's creation counts.
    An index is full (`segment.index.bytes`); the time index reserves one entry for the last
    timestamp.
    The batch's last offset minus the segment's base does not fit 32 bits (KAFKA-6530).
An empty segment is never ended: the next one would have the same name (KAFKA-6388).
Most appends need none of these rules: `roll_limits` gives size, offset and timestamp up to which
no rule can end the segment.

Thread-safety: immutable; pure functions.
Source: Kafka LogSegment.shouldRoll (4.3).
"""

import functools
import zlib
from typing import NamedTuple

from kprod.broker.log.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from kprod.broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from kprod.broker.log.stored_header import HEADER_BYTES
from kprod.broker.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from kprod.broker.topic_config import TopicConfig

_UNBOUNDED = 2**63 - 1
_MEMORY_SEGMENT_BYTES_MIN = 1 << 20
_MEMORY_SEGMENTS_RETAINED = 8


class SegmentRules(NamedTuple):
    """The limits of a log's segments.

    Attributes:
        segment_bytes: Maximum size of a segment (`segment.bytes`).
        segment_ms: `segment.ms`.
        jitter_ms: `segment.jitter.ms`, at most `segment_ms`.
        offset_entries_max: Maximum number of entries of the offset index.
        time_entries_max: Maximum number of entries of the time index, one of them reserved.
        index_interval_bytes: Bytes between two index entries; 0 indexes every batch.
        file_delete_delay_ms: How long the files of a dropped segment are kept.
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
        """Create the rules from a topic's settings.

        Args:
            config: The topic's settings.
            is_durable: Whether the log survives the process. In memory, each batch has an index
                entry, and a segment has at most an eighth of the retained size: retention drops
                whole segments, and memory use must stay close to the limit.

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
    """A batch that is to be appended.

    Attributes:
        size_bytes: Its size.
        last_offset: Offset of its last record.
        max_timestamp_ms: Its largest timestamp, −1 for none.
        now_ms: Wall clock time.
    """

    size_bytes: int
    last_offset: int
    max_timestamp_ms: int
    now_ms: int


def must_roll(segment: Segment, rules: SegmentRules, batch: NextBatch, seed: object) -> bool:
    """Decide whether a batch needs a new segment.

    Args:
        segment: The active segment.
        rules: The segment rules.
        batch: The batch.
        seed: The partition's name; with the segment's base it determines the segment's jitter, so
            that a simulation is reproducible.

    Returns:
        True if the segment must end before the batch.
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


class RollLimits(NamedTuple):
    """Limits within which no rule ends a segment; beyond one of them the rules are applied.

    Attributes:
        end_bytes_max: Largest size of the segment, the batch included.
        last_offset_max: Largest offset of the batch's last record.
        timestamp_max_ms: Largest timestamp of the batch.
    """

    end_bytes_max: int
    last_offset_max: int
    timestamp_max_ms: int


UNKNOWN_LIMITS = RollLimits(-1, -1, -1)
"""Limits that no batch is within, so that `must_roll` is asked about each."""

_NEVER_MS = -2  # below the timestamp of a batch that has none


def roll_limits(segment: Segment, rules: SegmentRules, seed: object) -> RollLimits:
    """Compute the limits within which batches need no check by `must_roll`.

    Args:
        segment: The active segment, not empty.
        rules: The segment rules.
        seed: As for `must_roll`.

    Returns:
        The limits; they hold until the segment is truncated or the rules change.
    """
    offset_entries, time_entries = segment.entry_counts
    free_entries = min(
        rules.offset_entries_max - offset_entries, rules.time_entries_max - time_entries
    )
    # A batch adds at most one entry and is at least as large as its header.
    end_bytes_max = min(rules.segment_bytes, segment.size_bytes + free_entries * HEADER_BYTES)
    first_ms = segment.first_timestamp_ms
    # If the first batch has no timestamp, the clock counts: then each batch is checked.
    age_ms = rules.segment_ms - _jitter_ms(segment, rules, seed)
    timestamp_max_ms = first_ms + age_ms if first_ms >= 0 else _NEVER_MS
    return RollLimits(end_bytes_max, segment.base_offset + RELATIVE_OFFSET_MAX, timestamp_max_ms)


def _jitter_ms(segment: Segment, rules: SegmentRules, seed: object) -> int:
    if not rules.jitter_ms:
        return 0
    return zlib.crc32(f"{seed}@{segment.base_offset}".encode()) % rules.jitter_ms
