"""Faults that compaction had in the field, each as a behaviour."""

import contextlib
import random

import pytest

from kprod.broker.log.cleaning.groups import grouped
from kprod.broker.log.cleaning.picker import Cleanable, Lags
from kprod.broker.log.cleaning.round import RoundAborted
from kprod.broker.log.cleaning.transactions import TransactionOutcomes
from kprod.broker.log.file_names import LOG_SUFFIX, segment_file_name
from kprod.broker.log.loading import LoadOptions, load_log
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment import Segment
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.transaction_index import AbortedTransaction
from kprod.record.reader import read_batches
from tests.broker.log.cleaning.histories import (
    RETENTION_MS,
    History,
    Producer,
    batches,
    store,
    visible,
)
from tests.oracle.record_v2 import encode_batch

ROUNDS_MAX = 100


def made(seed: int = 0) -> History:
    """An empty log in memory."""
    return History(PartitionLog(MemoryStore()), seed)


def pairs(history: History) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the retained records."""
    return [(it.offset, it.key, it.value) for it in visible(history.log)]


def test_groups_keep_relative_offsets_within_32_bits() -> None:
    """Segments whose offsets lie 2³¹ apart do not become one (KAFKA-6264, 5413, 4451)."""
    history = made()
    history.append(None, (b"a", b"1"))
    history.log.log_end_offset = 2**31 - 2
    history.log.roll(0)
    history.append(None, (b"b", b"2"))
    history.log.log_end_offset = 2**31 + 5
    history.log.roll(0)
    history.append(None, (b"a", b"3"))
    history.log.roll(0)

    groups = grouped(history.log.segments[:-1], SegmentRules())
    assert [[it.base_offset for it in group] for group in groups] == [
        [0, 2**31 - 2],
        [2**31 + 5],
    ]
    history.clean()
    assert pairs(history) == [(2**31 - 2, b"b", b"2"), (2**31 + 5, b"a", b"3")]


def test_segments_without_batches_always_fit() -> None:
    """None is left every 2³¹ offsets (KAFKA-12889)."""
    empty = [
        Segment(MemoryStore().create("x"), base, index_interval_bytes=0)
        for base in (0, 2**32, 2**33)
    ]
    assert grouped(empty, SegmentRules()) == [empty]


@pytest.mark.parametrize("slice_index", range(4))
def test_retention_in_the_middle_of_a_round_ends_it(slice_index: int) -> None:
    """The round changes nothing, and no segment goes twice (KAFKA-7278, 12955)."""
    history = made(3)
    history.write(30)
    history.log.roll(0)
    cleaning = history.round().run()
    for _ in range(slice_index):
        next(cleaning)
    history.log.drop_oldest()
    left = visible(history.log)

    with pytest.raises(RoundAborted):
        list(cleaning)

    assert visible(history.log) == left
    assert_no_remains(history)


@pytest.mark.parametrize("slice_index", range(12))
@pytest.mark.parametrize("how", ["truncate", "close"])
def test_a_round_that_is_given_up_leaves_nothing(slice_index: int, how: str) -> None:
    """At every slice: no file, and no change but in groups that were swapped before (I7)."""
    history = made(5)
    history.write(30)
    history.log.roll(0)
    before = visible(history.log)
    cleaning = history.round().run()
    for _ in range(slice_index):
        next(cleaning, None)
    swapped = visible(history.log)
    assert set(swapped) <= set(before)
    if how == "truncate":
        history.log.truncate_to(swapped[-1].offset)
        left = visible(history.log)
        assert left == swapped[: len(left)]
        with contextlib.suppress(RoundAborted):  # unless it was at its end
            assert next(cleaning, None) is None
        assert visible(history.log) == left
    else:
        cleaning.close()
        assert visible(history.log) == swapped
    assert_no_remains(history)


def assert_no_remains(history: History) -> None:
    """No file of a round is there."""
    names = history.log.store.names()
    assert not [it for it in names if it.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("seed", range(10))
def test_rounds_come_to_an_end(seed: int) -> None:
    """Holes, first dirty offsets within a batch: each round gets on (KAFKA-8764, 9826)."""
    history = made(seed)
    history.producers = [it for it in history.producers if not it.is_transactional]
    history.write(40)
    history.log.roll(0)
    rounds = 0
    while history.part().needs_cleaning(Lags(dirty_ratio=0.0)):
        first_dirty = history.log.cleaned_offset
        history.clean(buffer_bytes=24 * 8)
        assert history.log.cleaned_offset > first_dirty
        rounds += 1
        assert rounds < ROUNDS_MAX
    assert history.log.cleaned_offset == history.log.segments[-1].base_offset


def test_a_hole_at_the_end_is_not_looked_at_again() -> None:
    """Nothing but an aborted transaction is dirty: it is clean afterwards (KAFKA-8764)."""
    history = made()
    producer = Producer(7, is_transactional=True)
    history.producers = [producer]
    history.append(producer, (b"a", b"1"))
    history.end(producer, commit=False)
    history.log.roll(0)

    history.clean()

    assert not history.part().dirty_bytes
    assert pairs(history) == []


def test_a_start_beyond_the_active_base_has_nothing_dirty() -> None:
    """DeleteRecords may move it there (KAFKA-9133, 9826)."""
    history = made()
    history.append(None, (b"a", b"1"), (b"b", b"2"))
    history.log.roll(0)
    history.append(None, (b"a", b"3"), (b"b", b"4"))
    history.log.raise_start(3)

    assert not history.part().needs_cleaning(Lags(dirty_ratio=0.0))
    assert history.log.cleaned_offset == 3


@pytest.mark.parametrize("offset", [-1, 0, 99])
def test_a_checkpoint_out_of_bounds_is_set_right_once(offset: int) -> None:
    """Below the start or beyond the end: the log's start, and it is kept (KAFKA-6266)."""
    history = made()
    history.append(None, (b"a", b"1"), (b"b", b"2"))
    history.log.raise_start(1)
    history.log.cleaned_offset = offset

    history.part()

    assert history.log.cleaned_offset == 1


def test_the_ratio_of_large_logs_does_not_overflow() -> None:
    """Sizes past 2³¹ (KAFKA-6030)."""
    part = Cleanable((), 0, 0, clean_bytes=2**40, dirty_bytes=3 * 2**40, is_overdue=False)
    assert 4 * part.dirty_ratio == 3
    assert Cleanable((), 0, 0, 0, 0, is_overdue=True).dirty_ratio == 0


def test_one_segment_larger_than_the_map_is_compacted_in_rounds() -> None:
    """With room for seven keys; the first dirty offset lies within a batch (KAFKA-3587, 3894)."""
    history = made()
    history.append(None, *[(b"k%d" % (number % 20), b"%d" % number) for number in range(100)])
    history.log.roll(0)
    ends = []
    while history.part().dirty_bytes:
        ends.append(history.clean(buffer_bytes=24 * 8).end_offset)

    assert len(ends) > 10
    assert pairs(history) == [(it, b"k%d" % (it % 20), b"%d" % it) for it in range(80, 100)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_survivors_that_cannot_be_compressed_may_take_more_room(codec: int) -> None:
    """A batch that grows when it is compressed again (KAFKA-5316)."""
    history = made()
    rows = [(1, b"k%d" % it, random.Random(it).randbytes(300), ()) for it in range(20)]
    rows += [(1, b"z", bytes(50_000), ()), (1, b"z", b"", ())]
    store(history.log, encode_batch(rows, codec=codec))
    history.log.roll(0)
    for _ in history.round().run():
        pass

    assert [it.key for it in visible(history.log)] == [*(b"k%d" % it for it in range(20)), b"z"]


def test_a_batch_larger_than_a_slice_is_compacted() -> None:
    """Whatever `max.message.bytes` is at that time (KAFKA-6834)."""
    history = made()
    history.append(None, (b"a", bytes(700_000)), (b"b", bytes(700_000)), (b"a", b"small"))
    history.append(None, (b"b", b"small"))
    history.log.roll(0)

    history.clean()

    assert [it[:2] for it in pairs(history)] == [(2, b"a"), (3, b"b")]


def test_batches_without_records_do_not_pile_up() -> None:
    """The last one of each group stays, and each producer's last; the others go (KAFKA-7385)."""
    history = made()
    producer = Producer(1, is_transactional=False)
    history.producers = [producer]
    for number in range(12):
        history.append(producer, (b"k", b"%d" % number))
        history.log.roll(0)
        history.clean()
    history.append(None, (b"k", b"newest"))
    history.log.roll(0)
    for _ in range(3):
        history.log.cleaned_offset = 0
        history.clean()

    left = [(it.base_offset, it.record_count) for it in batches(history.log)]
    assert left == [(11, 0), (12, 1)]
    history.check_producers()


def test_markers_without_records_are_read_again() -> None:
    """The header of a marker that was its producer's only batch survives rounds (KAFKA-7467)."""
    history = made()
    producer = Producer(9, is_transactional=True)
    history.end(producer, commit=True)
    history.append(None, (b"k", b"1"))
    history.log.roll(0)
    history.clean()
    marker = next(batches(history.log))
    assert marker.record_count == 1
    assert marker.delete_horizon_ms == history.now_ms + RETENTION_MS
    history.now_ms += RETENTION_MS
    for _ in range(3):
        history.log.cleaned_offset = 0
        history.clean()

    first = next(batches(history.log))
    assert (first.is_control, first.record_count, first.producer_id) == (True, 0, 9)


def test_a_marker_stays_while_a_batch_of_its_transaction_does() -> None:
    """Across several segments, and however the round is divided (KAFKA-8351, 13727)."""
    history = made()
    history.log.rules = history.log.rules._replace(segment_bytes=1)
    producer = Producer(5, is_transactional=True)
    history.producers = [producer]
    history.append(producer, (b"a", b"1"))
    history.log.roll(0)
    history.append(None, (b"b", b"2"))
    history.log.roll(0)
    history.end(producer, commit=False)
    history.log.roll(0)
    for _ in range(3):
        history.clean()
        history.log.cleaned_offset = 0
        history.now_ms += RETENTION_MS

    controls = [it for it in batches(history.log) if it.is_control]
    assert len(controls) == 1
    assert controls[0].record_count == 1  # the producer's last batch, emptied, is still there
    aborted = [it for segment in history.log.segments for it in segment.aborted]
    assert [(it.producer_id, it.first_offset, it.last_offset) for it in aborted] == [(5, 0, 2)]
    assert pairs(history) == [(1, b"b", b"2")]


def test_a_key_with_the_bytes_of_a_marker_removes_no_marker() -> None:
    """Markers are not put into the map, and are not looked up there (KAFKA-14055)."""
    history = made()
    producer = Producer(5, is_transactional=True)
    history.producers = [producer]
    history.append(producer, (b"a", b"1"))
    history.end(producer, commit=True)
    for key in (b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"):
        history.append(None, (key, b"a record"))
    history.log.roll(0)

    history.clean()

    assert [it.is_control for it in batches(history.log)] == [False, True, False, False]
    assert len(pairs(history)) == 3


def test_an_open_transaction_is_left_alone() -> None:
    """Its segment and all behind it, whatever is in them (KAFKA-13194 for its high watermark)."""
    history = made()
    producer = Producer(5, is_transactional=True)
    history.append(None, (b"a", b"1"))
    history.append(None, (b"a", b"2"))
    history.log.roll(0)
    history.append(producer, (b"a", b"3"))
    history.log.roll(0)
    history.append(None, (b"a", b"4"))
    history.log.roll(0)

    history.clean()

    assert [it[2] for it in pairs(history)] == [b"2", b"3", b"4"]


def test_a_transaction_is_aborted_from_its_first_record_on() -> None:
    """Whether or not the map begins within it."""
    outcomes = TransactionOutcomes([AbortedTransaction(1, 10, 20, 30)])
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    rows = [(1, b"k", b"v", ())]
    early, late = (
        next(read_batches(encode_batch(rows, base_offset=at, **fields)))  # type: ignore[arg-type]
        for at in (5, 15)
    )

    assert (outcomes.is_aborted(early), outcomes.is_aborted(late)) == (False, True)


def test_a_tombstone_stays_for_its_horizon_however_old_it_is() -> None:
    """It counts from the first round that keeps it, not from its own time (KAFKA-4529)."""
    history = made()
    history.append(None, (b"a", b"1"), (b"b", b"2"))
    history.append(None, (b"a", None))
    history.log.roll(0)
    history.now_ms += 10 * RETENTION_MS
    for elapsed_ms in (0, RETENTION_MS - 1):
        history.now_ms += elapsed_ms
        history.clean()
        history.log.cleaned_offset = 0
        assert pairs(history) == [(1, b"b", b"2"), (2, b"a", None)]


def test_later_rounds_do_not_put_off_the_end_of_a_tombstone() -> None:
    """Each of them keeps the horizon of the first one (KAFKA-8522, 4545)."""
    history = made()
    history.append(None, (b"a", b"1"), (b"b", b"2"))
    history.append(None, (b"a", None))
    history.log.roll(0)
    for _ in range(4):
        history.clean()
        history.log.cleaned_offset = 0
        assert (2, b"a", None) in pairs(history)
        history.now_ms += RETENTION_MS // 4

    history.clean()

    assert pairs(history) == [(1, b"b", b"2")]


def test_the_end_offset_survives_the_last_records() -> None:
    """All are gone and the active segment is lost: offsets are not given again (KAFKA-17076)."""
    history = made()
    history.append(None, (b"a", b"1"))
    history.append(None, (b"a", None), (b"a", None))
    history.log.roll(0)
    history.clean()
    history.now_ms += RETENTION_MS
    history.log.cleaned_offset = 0
    history.clean()
    store_of_log = history.log.store
    active = history.log.segments[-1]
    assert pairs(history) == []
    assert active.base_offset == 3
    store_of_log.remove(segment_file_name(3, LOG_SUFFIX))

    loaded = load_log(store_of_log, LoadOptions())

    assert (loaded.log.log_end_offset, loaded.cut_bytes) == (3, 0)
