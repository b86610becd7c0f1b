"""Old segments go whole, oldest first, by start, size and time; unreplicated records stay."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.broker.log.file_deletion import delete_later
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.retention import RetentionLimits, apply_retention
from kprod.broker.log.segment_rules import SegmentRules
from kprod.record.reader import read_batches
from tests.broker.log.stores import made_store
from tests.oracle.record_v2 import encode_batch

NOW_MS = 1_000_000


def log_of(*timestamps_ms: int, store: MemoryStore | None = None) -> PartitionLog:
    """A log with a segment of one batch of 100 bytes for each timestamp."""
    log = PartitionLog(store or MemoryStore(), rules=SegmentRules(segment_bytes=1))
    for timestamp_ms in timestamps_ms:
        append(log, timestamp_ms)
    return log


def append(log: PartitionLog, timestamp_ms: int) -> None:
    """Append a batch of one record, 100 bytes in all."""
    empty = encode_batch([(timestamp_ms, b"", b"", ())])
    encoded = memoryview(
        bytearray(encode_batch([(timestamp_ms, b"", b"v" * (100 - len(empty)), ())]))
    )
    assert len(encoded) == 100
    log.append(next(read_batches(encoded)), encoded, leader_epoch=0, now_ms=NOW_MS)


def retained(log: PartitionLog, limits: RetentionLimits, *, high_watermark: int = 2**62) -> int:
    """Apply retention; the offsets that are left begin here."""
    apply_retention(log, limits, high_watermark=high_watermark, now_ms=NOW_MS)
    return log.log_start_offset


def test_a_limit_between_two_sizes_keeps_the_larger() -> None:
    """250 over pieces of 100 + 100 + 100 keeps all 300: 200 would be too few."""
    log = log_of(1, 2, 3)

    assert retained(log, RetentionLimits(retention_bytes=250)) == 0
    assert log.size_bytes == 300
    assert retained(log, RetentionLimits(retention_bytes=200)) == 1
    assert log.size_bytes == 200


def test_all_due_leaves_an_empty_segment() -> None:
    """The log rolls first, and continues at its offset."""
    log = log_of(1, 2, 3)

    assert retained(log, RetentionLimits(retention_ms=0)) == 3
    assert (log.size_bytes, len(log.segments), log.log_end_offset) == (0, 1, 3)
    append(log, NOW_MS)
    assert [it.base_offset for it in log.batches()] == [3]
    assert retained(log, RetentionLimits(retention_bytes=0)) == 4
    assert retained(log, RetentionLimits(retention_bytes=0)) == 4


def test_time_counts_by_the_largest_timestamp() -> None:
    """A young segment keeps older ones behind it; one in the future does, too."""
    week = RetentionLimits(retention_ms=1_000)

    assert retained(log_of(NOW_MS - 1_001, NOW_MS - 1_000, NOW_MS), week) == 1
    assert retained(log_of(NOW_MS, 5, 5), week) == 0
    assert retained(log_of(NOW_MS + 9_999_999, 5, NOW_MS), week) == 0


def test_segments_without_timestamps_are_as_old_as_their_last_append() -> None:
    """As Kafka takes a file's time then."""
    log = log_of(-1, -1)

    assert retained(log, RetentionLimits(retention_ms=0)) == 0
    apply_retention(log, RetentionLimits(retention_ms=0), high_watermark=9, now_ms=NOW_MS + 1)
    assert log.log_start_offset == 2


def test_segments_before_the_start_go_whatever_the_policy() -> None:
    """Also without limits, as for a compacted log (KAFKA-7400); the active one stays."""
    log = log_of(1, 2, 3)
    log.raise_start(2)
    assert retained(log, RetentionLimits()) == 2
    assert [it.base_offset for it in log.segments] == [2]

    log.raise_start(3)
    assert retained(log, RetentionLimits()) == 3
    assert [it.base_offset for it in log.segments] == [2]


def test_the_start_goes_before_size_and_time() -> None:
    """Size counts what the start has left (KAFKA-12177)."""
    log = log_of(1, 2, 3, 4)
    log.raise_start(2)

    assert retained(log, RetentionLimits(retention_bytes=200)) == 2


def test_records_that_are_not_replicated_stay() -> None:
    """Nothing at or beyond the high watermark, by any rule."""
    log = log_of(1, 2, 3)

    assert retained(log, RetentionLimits(retention_bytes=0), high_watermark=1) == 1
    assert retained(log, RetentionLimits(retention_ms=0), high_watermark=1) == 1


@given(
    ages_ms=st.lists(st.integers(0, 20), max_size=8),
    retention_ms=st.integers(-1, 20),
    retention_bytes=st.integers(-1, 900),
    start=st.integers(0, 8),
    high_watermark=st.integers(0, 8),
)
def test_what_stays_is_what_the_rules_say(
    ages_ms: list[int], retention_ms: int, retention_bytes: int, start: int, high_watermark: int
) -> None:
    """Beside the rules written as a loop over ages and a size."""
    log = log_of(*(NOW_MS - age_ms for age_ms in ages_ms))
    start, high_watermark = min(start, len(ages_ms)), min(high_watermark, len(ages_ms))
    log.raise_start(start)
    gone = 0
    while gone < high_watermark and gone + 1 <= start and gone + 1 < len(ages_ms):
        gone += 1
    while gone < high_watermark and 0 <= retention_bytes <= 100 * (len(ages_ms) - gone - 1):
        gone += 1
    while gone < high_watermark and ages_ms[gone] > retention_ms >= 0:
        gone += 1

    limits = RetentionLimits(retention_ms, retention_bytes)

    assert retained(log, limits, high_watermark=high_watermark) == max(gone, start)
    assert log.size_bytes == 100 * (len(ages_ms) - gone)
    assert [it.base_offset for it in log.batches()] == list(range(gone, len(ages_ms)))
    # A second round finds nothing more.
    assert retained(log, limits, high_watermark=high_watermark) == max(gone, start)


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_files_are_renamed_now_and_removed_later(tmp_path: Path, delay_ms: int) -> None:
    """Segment, indexes and snapshot; the offsets are gone for readers at once."""
    pool = FilePool()
    later: list[tuple[int, object]] = []
    log = PartitionLog(made_store(tmp_path / "t-0", pool), rules=SegmentRules(segment_bytes=1))
    log.delete_files = delete_later(lambda delay, action: later.append((delay, action)))
    log.rules = log.rules._replace(file_delete_delay_ms=delay_ms)
    for timestamp_ms in (1, 2, 3):
        append(log, timestamp_ms)

    assert retained(log, RetentionLimits(retention_bytes=100)) == 2

    files = {it.name for it in (tmp_path / "t-0").iterdir()}
    bases = {"0" * 20, "0" * 19 + "1"}
    renamed = {it for it in files if it.endswith(".deleted")}
    wanted = {f"{base}{kind}.deleted" for base in bases for kind in (".log", ".index")}
    assert wanted | {f"{'0' * 19}1.snapshot.deleted"} <= renamed
    assert not {it for it in files - renamed if it[:20] in bases}
    assert [it.base_offset for it in log.batches()] == [2]
    for delay, action in later:
        assert delay == delay_ms
        assert callable(action)
        action()
    assert not [it for it in (tmp_path / "t-0").iterdir() if it.name.endswith(".deleted")]
    pool.close()
