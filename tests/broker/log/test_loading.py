"""Logs made from files: whole batches are there, torn ones gone, indexes as before."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.broker.log.aborted_lookup import aborted_in
from kprod.broker.log.epochs import EPOCH_FILE
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.loading import Loaded, LoadOptions, load_log
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.protocol.error_table import ErrorCode
from kprod.record.control import ControlType, EndMarker, encode_marker_batch
from kprod.record.reader import read_batches
from tests.broker.log.stores import made_store
from tests.oracle.record_v2 import BatchFields, encode_batch

RULES = SegmentRules(segment_bytes=3_000, index_interval_bytes=200)
BATCHES = 84
CRC_COVERS_FROM = 16  # magic, checksum and all that it covers


class Place:
    """A partition's directory."""

    def __init__(self, directory: Path) -> None:
        """Use a directory."""
        self.directory = directory
        self.pool = FilePool()
        self.store = made_store(directory, self.pool)

    def load(self) -> Loaded:
        """Load the directory."""
        return load_log(self.store, LoadOptions(RULES))

    def contents(self) -> dict[str, bytes]:
        """All files."""
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}

    def put(self, contents: dict[str, bytes]) -> None:
        """Replace all files."""
        self.pool.close()
        for path in self.directory.iterdir():
            path.unlink()
        for name, content in contents.items():
            (self.directory / name).write_bytes(content)


def append(log: PartitionLog, number: int) -> None:
    """Append a batch of two records; timestamps go up and down."""
    rows = [((number * 7) % 50, b"k%d" % number, b"v" * 20, ()), (number, None, b"w", ())]
    encoded = memoryview(bytearray(encode_batch(rows)))
    batch = next(read_batches(encoded))
    log.append(batch, encoded, leader_epoch=1)


def stored(log: PartitionLog) -> list[bytes]:
    """All batches' bytes."""
    return [bytes(it.view) for it in log.batches()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A directory with three segments, the last of at least 20 batches; syncs cost nothing."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    place = Place(tmp_path / "orders-0")
    log = place.load().log
    for number in range(BATCHES):
        append(log, number)
    log.save_indexes()
    assert len(log.segments) == 3
    yield place
    place.pool.close()


def test_a_log_is_the_same_after_a_restart(place: Place) -> None:
    """Batches, offsets, sizes and the files of indexes; nothing is cut."""
    before = place.contents()

    loaded = place.load()
    loaded.log.save_indexes()

    assert (loaded.cut_bytes, loaded.cut_offset, loaded.deleted) == (0, -1, ())
    assert place.contents() == before
    assert (loaded.log.log_start_offset, loaded.log.log_end_offset) == (0, 2 * BATCHES)
    assert loaded.log.size_bytes == sum(len(it) for it in stored(loaded.log))
    append(loaded.log, 99)
    assert loaded.log.log_end_offset == 2 * BATCHES + 2


@pytest.mark.slow
def test_the_last_segment_is_cut_at_every_byte(place: Place) -> None:
    """All whole batches below the cut are there, bit for bit; appends continue behind them."""
    before = place.contents()
    whole = stored(place.load().log)
    last = max(name for name in before if name.endswith(".log"))
    ends = _ends(before[last])
    assert len(ends) >= 20
    count_before = len(whole) - len(ends)

    for size in range(len(before[last])):
        place.store.remove(last)
        (place.directory / last).write_bytes(before[last][:size])
        loaded = place.load()

        kept = sum(end <= size for end in ends)
        assert stored(loaded.log) == whole[: count_before + kept]
        assert loaded.cut_bytes == size - (ends[kept - 1] if kept else 0)
        assert loaded.log.log_end_offset == 2 * (count_before + kept)
        append(loaded.log, count_before + kept)
        assert stored(loaded.log)[-1] == whole[count_before + kept]


def test_an_epoch_outlives_the_records_before_it(place: Place) -> None:
    """Clients know it already, so a later leader's must be above it; it begins at the new end."""
    log = place.load().log
    log.begin_epoch(7)
    contents = place.contents()
    last = max(name for name in contents if name.endswith(".log"))
    place.put({**contents, last: contents[last][: _ends(contents[last])[0]]})

    loaded = place.load().log

    end_offset = loaded.log_end_offset
    assert end_offset < log.log_end_offset
    assert loaded.epochs.latest_epoch == 7
    assert loaded.epochs.end_of(1, end_offset).end_offset == end_offset
    assert place.load().log.epochs.latest_epoch == 7


def test_recovered_indexes_equal_those_of_an_untouched_log(place: Place) -> None:
    """After a cut, the rest appended again: each file is as if nothing had happened."""
    before = place.contents()
    last = max(name for name in before if name.endswith(".log"))
    damaged = {name: it for name, it in before.items() if not name.endswith("index")}
    place.put({**damaged, last: before[last][:1_000]})

    log = place.load().log
    for number in range(log.log_end_offset // 2, BATCHES):
        append(log, number)
    log.save_indexes()

    assert place.contents() == before


@pytest.mark.parametrize("flipped_bit", [0, 7])
def test_a_changed_byte_cuts_the_log_there(place: Place, flipped_bit: int) -> None:
    """Whatever the checksum covers: the batches before are served, later segments put aside."""
    before = place.contents()
    whole = stored(place.load().log)
    first = min(name for name in before if name.endswith(".log"))
    ends = _ends(before[first])
    index = 3
    start, end = ends[index - 1], ends[index]
    segments = [name for name in before if name != EPOCH_FILE]
    later = {name + ".deleted" for name in segments if not name.startswith(first[:20])}

    for at in range(start + CRC_COVERS_FROM, end):
        content = bytearray(before[first])
        content[at] ^= 1 << flipped_bit
        place.put({**before, first: bytes(content)})
        loaded = place.load()

        assert stored(loaded.log) == whole[:index]
        assert loaded.cut_bytes == len(content) - start
        assert loaded.cut_offset == 2 * index
        assert set(loaded.deleted) == later
        assert later <= set(place.store.names())


def test_an_offset_that_does_not_rise_cuts_the_log(place: Place) -> None:
    """No checksum covers a batch's offset: the same batch twice is found by its order."""
    before = place.contents()
    last = max(name for name in before if name.endswith(".log"))
    ends = _ends(before[last])
    repeated = before[last] + before[last][: ends[0]]
    place.put({**before, last: repeated})

    loaded = place.load()

    assert loaded.cut_bytes == ends[0]
    assert loaded.log.log_end_offset == 2 * BATCHES


def test_recovered_bytes_are_synced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment's batches, then rebuilt files, the directory last (KAFKA-10101)."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda it: synced.append(os.fstat(it).st_ino))

    place.load()

    logs = sorted(place.directory.glob("*.log"))
    assert synced[: len(logs)] == [path.stat().st_ino for path in logs]
    assert synced[-1] == place.directory.stat().st_ino


@pytest.mark.parametrize("was_cleaned", [False, True])
def test_a_segment_that_lost_whole_batches_at_its_end_ends_the_log(
    place: Place, was_cleaned: bool
) -> None:
    """It was not synced yet when the next one was in use; a hole of compaction is none."""
    contents = place.contents()
    first, second, third = sorted(name for name in contents if name.endswith(".log"))
    ends = _ends(contents[second])
    contents[second] = contents[second][: ends[-3]]
    place.put(contents)

    base_of_third = int(third.removesuffix(".log"))
    cleaned_offset = base_of_third if was_cleaned else base_of_third - 1
    loaded = load_log(place.store, LoadOptions(RULES, cleaned_offset=cleaned_offset))

    if was_cleaned:
        assert loaded.log.log_end_offset == 2 * BATCHES
        assert not loaded.deleted
    else:
        assert loaded.cut_offset == loaded.log.log_end_offset == base_of_third - 4
        assert f"{third}.deleted" in loaded.deleted
        assert loaded.log.segments[0].base_offset == int(first.removesuffix(".log"))


def test_other_files_are_left_alone(place: Place) -> None:
    """An index without a segment goes; files of other names are not ours."""
    before = place.contents()
    others = {"notes.txt": b"mine", "1.log": b"mine", "partition.metadata": b"version: 0\n"}
    orphan = "00000000000000009999.timeindex"
    place.put({**before, **others, orphan: b""})

    loaded = place.load()
    loaded.log.save_indexes()

    assert place.contents() == {**before, **others}


def test_a_batch_larger_than_the_window_is_read(tmp_path: Path) -> None:
    """Recovery reads a megabyte at a time, and more where one batch is larger."""
    place = Place(tmp_path / "orders-0")
    encoded = memoryview(bytearray(encode_batch([(1, None, b"v" * 3_000_000, ())])))
    log = place.load().log
    append(log, 1)
    log.append(next(read_batches(encoded)), encoded, leader_epoch=1)
    append(log, 2)
    whole = stored(log)

    assert stored(place.load().log) == whole
    place.pool.close()


def test_a_store_in_memory_is_loaded_alike() -> None:
    """The same code over both stores."""
    store = MemoryStore()
    log = PartitionLog(store, rules=RULES)
    for number in range(40):
        append(log, number)

    loaded = load_log(store, LoadOptions())

    assert stored(loaded.log) == stored(log)
    assert len(loaded.log.segments) == len(log.segments) > 1


def _ends(content: bytes) -> list[int]:
    sizes = [batch.size_bytes for batch in read_batches(content)]
    return [sum(sizes[: index + 1]) for index in range(len(sizes))]


def test_transactions_are_known_again(place: Place) -> None:
    """Aborted ones by their markers, open ones by their first offset; the index file follows."""
    place.put({})
    log = log_with_transactions(place)
    log.save_indexes()
    name = f"{0:020d}.txnindex"
    written = place.contents()

    loaded = place.load()
    loaded.log.save_indexes()

    assert_transactions_are_known(loaded.log)
    assert len(written[name]) == 34
    assert place.contents()[name] == written[name]


@pytest.mark.parametrize("is_index_torn", [False, True])
@pytest.mark.parametrize("has_later_segments", [False, True])
def test_transactions_are_known_without_a_check(
    place: Place, has_later_segments: bool, is_index_torn: bool
) -> None:
    """From the snapshot and the index; where the index is torn, from the batches."""
    place.put({})
    log = log_with_transactions(place)
    if has_later_segments:
        for number in range(2 * BATCHES):
            append(log, number)
        assert len(log.segments) > 2
    log.close()
    contents = place.contents()
    index = place.directory / f"{0:020d}.txnindex"
    if is_index_torn:
        index.write_bytes(contents[index.name][:-1])

    options = LoadOptions(RULES, was_clean=True, recovery_point=log.log_end_offset)
    loaded = load_log(place.store, options)

    assert bool(loaded.recovered_count) == is_index_torn
    assert_transactions_are_known(loaded.log)
    loaded.log.close()
    assert index.read_bytes() == contents[index.name]


def test_transactions_are_known_without_a_snapshot(place: Place) -> None:
    """The batches say all of it again, and the index has nothing twice."""
    place.put({})
    log_with_transactions(place).close()
    for name in place.contents():
        if name.endswith(".snapshot"):
            (place.directory / name).unlink()

    loaded = load_log(place.store, LoadOptions(RULES, was_clean=True))

    assert_transactions_are_known(loaded.log)


def test_transactions_are_known_from_a_snapshot_and_the_batches_behind_it(place: Place) -> None:
    """One that was open at the snapshot is aborted by a batch that must be recovered."""
    place.put({})
    log = log_with_transactions(place)
    for number in range(BATCHES):
        append(log, number)
    marker = EndMarker(ControlType.ABORT, 0)
    put(log, encode_marker_batch(marker, producer_id=2, producer_epoch=0, timestamp_ms=6))
    end = log.log_end_offset
    bases = sorted(int(it[:20]) for it in place.contents() if it.endswith(".log"))

    loaded = load_log(place.store, LoadOptions(RULES, recovery_point=bases[-1]))

    assert loaded.recovered_count == 1 < len(loaded.log.segments)
    assert not len(loaded.log.producers.transactions)
    found = [it[:3] for it in aborted_in(loaded.log, 0, 1 << 20, end)]
    assert found == [(1, 0, 2), (2, 1, end - 1)]


def test_the_index_of_a_marker_that_was_cut_off_goes(place: Place) -> None:
    """Otherwise its transaction would be skipped after the next start."""
    place.put({})
    log = log_with_transactions(place)
    log.save_indexes()
    log.truncate_to(2)
    log.close()

    loaded = load_log(place.store, LoadOptions(RULES, was_clean=True))

    assert aborted_in(loaded.log, 0, 1 << 20, 2) == []
    assert f"{0:020d}.txnindex" not in place.contents()


def log_with_transactions(place: Place) -> PartitionLog:
    """A log with an open transaction, and one that was aborted."""
    log = place.load().log
    for producer_id in (1, 2):
        fields: BatchFields = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": 0,
            "is_transactional": True,
        }
        put(log, encode_batch([(5, b"k", b"v", ())], **fields))
    marker = EndMarker(ControlType.ABORT, 3)
    put(log, encode_marker_batch(marker, producer_id=1, producer_epoch=0, timestamp_ms=6))
    return log


def assert_transactions_are_known(log: PartitionLog) -> None:
    """The log knows what `log_with_transactions` put into it."""
    found = [(it.producer_id, it.first_offset) for it in aborted_in(log, 0, 1 << 20, 3)]
    assert found == [(1, 0)]
    assert log.producers.transactions.first_offset_of(2) == 1
    assert log.producers.transactions.first_offset_of(1) == -1
    assert log.producers.check_marker(1, 0, 2)[0] == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def put(log: PartitionLog, encoded: bytes | bytearray) -> None:
    """Append a batch as a partition does."""
    view = memoryview(bytearray(encoded))
    batch = next(read_batches(view))
    base_offset = log.append(batch, view, leader_epoch=1)
    ended = log.producers.remember(batch, base_offset)
    if ended is not None:
        log.note_ended(ended)
