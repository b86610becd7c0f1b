"""Which neighbouring segments become one: as many as fit into a segment's limits.

Rules. The bytes of all together are within `segment.bytes`, the entries of each index within
`segment.index.bytes`, and the last offset is at most 2³¹−1 above the first base. A segment without
batches always fits, so that none is left every 2³¹ offsets (KAFKA-12889).

Thread-safety: functions of their arguments.
Source: Kafka Cleaner.groupSegmentsBySize (4.3).
"""

from collections.abc import Sequence

from kprod.broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from kprod.broker.log.segment_rules import SegmentRules


def grouped(segments: Sequence[Segment], limits: SegmentRules) -> list[list[Segment]]:
    """Put segments together.

    Args:
        segments: Oldest first.
        limits: Of the new segments.

    Returns:
        Groups in order, each of one segment at least.
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
