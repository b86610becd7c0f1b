"""A segment ends before an append, by size, age, index and offset; never by time alone."""

import itertools
from pathlib import Path

import pytest

from kprod.broker import EmbeddedConfig
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.topic_config import TopicConfig
from kprod.record.reader import read_batches
from tests.broker.log.stores import made_store
from tests.oracle.record_v2 import encode_batch

DEFAULTS = TopicConfig.of_cluster(EmbeddedConfig())


def append(log: PartitionLog, timestamp_ms: int, *, now_ms: int = 0) -> int:
    """Append a batch of one record; returns its size."""
    encoded = memoryview(bytearray(encode_batch([(timestamp_ms, b"k", b"value", ())])))
    log.append(next(read_batches(encoded)), encoded, leader_epoch=0, now_ms=now_ms)
    return len(encoded)


def bases(log: PartitionLog) -> list[int]:
    """First offsets of the segments."""
    return [it.base_offset for it in log.segments]


def rules_of(**settings: str) -> SegmentRules:
    """The rules of a topic with some settings, underscores for dots."""
    overrides: dict[str, str | None] = {
        name.replace("_", "."): text for name, text in settings.items()
    }
    return SegmentRules.of_topic(DEFAULTS.with_overrides(overrides), is_durable=True)


def test_a_segment_ends_when_a_batch_would_take_it_past_its_size() -> None:
    """At exactly its size it does not."""
    size = append(PartitionLog(MemoryStore()), 1)
    log = PartitionLog(MemoryStore(), rules=SegmentRules(segment_bytes=2 * size))
    for _ in range(5):
        append(log, 1)

    assert bases(log) == [0, 2, 4]


def test_a_segment_ends_by_the_time_between_batches() -> None:
    """The largest timestamps of the first one and of the next one count, and no clock."""
    log = PartitionLog(MemoryStore(), rules=rules_of(segment_ms="1000"))
    for timestamp_ms in (5_000, 6_000, 4_000, 6_001, 7_001):
        append(log, timestamp_ms, now_ms=timestamp_ms * 1_000)

    assert bases(log) == [0, 3]


def test_without_timestamps_the_clock_counts() -> None:
    """Since the segment was made or last appended to."""
    log = PartitionLog(MemoryStore(), rules=rules_of(segment_ms="1000"))
    for now_ms in (0, 1_000, 2_001, 2_002):
        append(log, -1, now_ms=now_ms)

    assert bases(log) == [0, 2]


def test_jitter_is_drawn_from_the_name_and_the_offset() -> None:
    """So that segments of different partitions end at different times, and a run repeats itself."""

    def ends(name: str) -> list[int]:
        log = PartitionLog(
            MemoryStore(), rules=rules_of(segment_ms="1000", segment_jitter_ms="900")
        )
        log.name = name
        for timestamp_ms in range(0, 8_000, 10):
            append(log, timestamp_ms)
        return bases(log)

    one = ends("orders-0")
    lengths = [after - before for before, after in itertools.pairwise(one)]
    assert one == ends("orders-0") != ends("orders-1")
    assert len(set(lengths)) > 1
    assert all(10 <= it <= 101 for it in lengths)


@pytest.mark.parametrize(("index_bytes", "batches"), [(40, 2), (16, 1), (4, 1)])
def test_a_segment_ends_when_an_index_is_full(index_bytes: int, batches: int) -> None:
    """The index by time keeps an entry free; an index without room does not roll for ever."""
    rules = rules_of(segment_index_bytes=str(index_bytes), index_interval_bytes="0")
    log = PartitionLog(MemoryStore(), rules=rules)
    for number in range(4):
        append(log, number)

    assert bases(log) == list(range(0, 4, batches))


def test_a_compacted_log_ends_segments_by_its_longest_lag() -> None:
    """Otherwise the newest records could not be compacted in time (KIP-354)."""
    settings = {"cleanup_policy": "compact", "max_compaction_lag_ms": "7"}

    assert rules_of(**settings).segment_ms == 7
    assert rules_of(**settings, segment_ms="5").segment_ms == 5
    assert rules_of(max_compaction_lag_ms="7").segment_ms == 604_800_000


def test_memory_stays_close_to_what_is_retained() -> None:
    """A segment has an eighth of it, a mebibyte at least; on disk its own size."""
    config = DEFAULTS.with_overrides({"retention.bytes": str(80 << 20)})

    assert SegmentRules.of_topic(config, is_durable=False).segment_bytes == 10 << 20
    assert SegmentRules.of_topic(config, is_durable=True).segment_bytes == 1 << 30
    small = DEFAULTS.with_overrides({"retention.bytes": "5"})
    assert SegmentRules.of_topic(small, is_durable=False).segment_bytes == 1 << 20


def test_rolling_twice_makes_one_segment(tmp_path: Path) -> None:
    """The second would have the name of the first (KAFKA-6388)."""
    pool = FilePool()
    log = PartitionLog(made_store(tmp_path / "t-0", pool))
    append(log, 1)
    for _ in range(2):
        log.roll(0)

    assert bases(log) == [0, 1]
    append(log, 2)
    assert [it.base_offset for it in log.batches()] == [0, 1]
    pool.close()
