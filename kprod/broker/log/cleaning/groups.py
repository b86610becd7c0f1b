"""Decides which adjacent segments are compacted into one: as many as fit a segment's limits.

Rules.
Together the segments have at most `segment.bytes` and, in each index, at most the entries of
`segment.index.bytes`; the last offset is at most 2³¹−1 above the first base.
A segment without batches always fits; otherwise an empty one would remain for every 2³¹ offsets
(KAFKA-12889).

Thread-safety: pure functions.
Source: Kafka Cleaner.groupSegmentsBySize (4.3).
"""

from collections.abc import Sequence

from kprod.broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from kprod.broker.log.segment_rules import SegmentRules


def grouped(segments: Sequence[Segment], limits: SegmentRules) -> list[list[Segment]]:
    """Group adjacent segments.

    Args:
        segments: Segments, oldest first.
        limits: Limits of the new segments.

    Returns:
        The groups in order, each with at least one segment.
    """
    groups: list[list[Segment]] = []
    size_bytes = offset_entries = time_entries = 0
    for segment in segments:
        offsets, times = segment.entry_counts
        fits = bool(groups) and (
            not segment.size_bytes
            or (
                size_bytes + segment.size_bytes <= limits.segment_bytes
                and offset_entries + offsets <= limits.offset_entries_max
                and time_entries + times <= limits.time_entries_max
                and segment.next_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes = offset_entries = time_entries = 0
        size_bytes += segment.size_bytes
        offset_entries += offsets
        time_entries += times
    return groups
