"""A partition's log beside a list of batches: the same answers after any history."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.retention import RetentionLimits, apply_retention
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.time_lookup import first_record_at, latest_record
from kprod.model import Record
from kprod.record.reader import read_batches, read_records
from tests.broker.log.stores import made_store
from tests.oracle.record_v2 import encode_batch

TIMES_MS = st.integers(0, 20)
OFFSETS = st.integers(0, 200)


class Stored(NamedTuple):
    """The model's knowledge of a batch."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    size_bytes: int


def append(
    log: PartitionLog, *timestamps_ms: int, segment_bytes: int = 1 << 30, leader_epoch: int = 3
) -> Stored:
    """Append a batch with a record for each timestamp."""
    rows = [(timestamp_ms, b"k", b"value", ()) for timestamp_ms in timestamps_ms]
    encoded = memoryview(bytearray(encode_batch(rows)))
    batch = next(read_batches(encoded))
    log.rules = log.rules._replace(segment_bytes=segment_bytes)
    base_offset = log.append(batch, encoded, leader_epoch=leader_epoch)
    last_offset = base_offset + len(timestamps_ms) - 1
    return Stored(base_offset, last_offset, max(timestamps_ms), len(encoded))


class LogBesideModel(RuleBasedStateMachine):
    """Appends, truncation and retention in any order; after each step the log says the same."""

    @initialize(interval=st.sampled_from([0, 1, 300]), in_memory=st.booleans())
    def begin(self, interval: int, in_memory: bool) -> None:
        """Make a log whose segments hold a few batches."""
        self.pool = FilePool(descriptors_max=2)
        self.directory = tempfile.TemporaryDirectory()
        on_disk = made_store(Path(self.directory.name) / "orders-0", self.pool)
        store = MemoryStore() if in_memory else on_disk
        self.log = PartitionLog(store, rules=SegmentRules(index_interval_bytes=interval))
        self.model: list[Stored] = []
        self.epoch = 0
        self.start = 0

    @rule(
        times=st.lists(TIMES_MS, min_size=1, max_size=4),
        segment_bytes=st.integers(1, 1_000),
        new_leader=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def append(self, times: list[int], segment_bytes: int, new_leader: int) -> None:
        """Append a batch, in a new segment where the old one is full, perhaps by a new leader."""
        self.epoch += new_leader
        self.model.append(
            append(self.log, *times, segment_bytes=segment_bytes, leader_epoch=self.epoch)
        )

    @rule(back=st.integers(0, 8))
    def truncate(self, back: int) -> None:
        """Cut a suffix off; a batch that holds the offset goes whole."""
        offset = max(self.log.log_end_offset - back, self.start)
        self.log.truncate_to(offset)
        while self.model and self.model[-1].last_offset >= offset:
            self.model.pop()

    @rule(retention_bytes=st.integers(0, 1_000), back=st.integers(0, 8))
    def retain(self, retention_bytes: int, back: int) -> None:
        """Drop old segments; at least this many bytes stay, and all unreplicated ones."""
        limit = max(self.log.log_end_offset - back, self.start)
        before = self.log.size_bytes
        limits = RetentionLimits(retention_bytes=retention_bytes)
        apply_retention(self.log, limits, high_watermark=limit, now_ms=0)
        assert self.log.size_bytes >= min(before, retention_bytes)
        dropped = [it for it in self.model if it.last_offset < self.log.log_start_offset]
        assert all(it.last_offset < limit for it in dropped)
        self.start = self.log.log_start_offset
        self.model = self.model[len(dropped) :]

    @rule(offset=OFFSETS, limit=OFFSETS, max_bytes=st.integers(1, 600))
    def read(self, offset: int, limit: int, max_bytes: int) -> None:
        """Bytes from the batch that holds the offset, none of the batch that holds the limit."""
        if not self.start <= offset <= self.log.log_end_offset:
            return
        pieces = self.log.read(offset, limit_offset=limit, max_bytes=max_bytes)
        wanted = [it for it in self.model if it.last_offset >= offset and it.last_offset < limit]
        got = b"".join(pieces)
        if not wanted:
            assert not got
            return
        assert 0 < len(got) <= max(max_bytes, wanted[0].size_bytes)
        batches = list(read_batches(got))
        assert [it.base_offset for it in batches] == [
            it.base_offset for it in wanted[: len(batches)]
        ]
        assert batches

    @rule(offset=OFFSETS, limit=OFFSETS)
    def count(self, offset: int, limit: int) -> None:
        """Readable bytes are counted exactly within a segment, and never too few beyond it."""
        if not self.start <= offset <= self.log.log_end_offset:
            return
        wanted = sum(it.size_bytes for it in self.model if offset <= it.last_offset < limit)
        counted = self.log.bytes_between(offset, limit, enough=100_000)
        assert counted == wanted or (counted == 100_000 and len(self.log.segments) > 1)

    @rule(timestamp_ms=TIMES_MS)
    def look_up_by_time(self, timestamp_ms: int) -> None:
        """Find the first record at or after a time by a linear scan."""
        late = (it for it in self.records() if it.timestamp_ms >= timestamp_ms)
        first = next((it.offset for it in late if it.offset >= self.log.log_start_offset), None)
        found = first_record_at(self.log, timestamp_ms)
        assert (None if found is None else found.offset) == first

    @rule()
    def look_up_largest(self) -> None:
        """Find the first record with the largest timestamp by a linear scan."""
        wanted = max(self.records(), key=lambda it: it.timestamp_ms, default=None)
        found = latest_record(self.log)
        assert (None if found is None else found.offset) == (wanted and wanted.offset)

    @rule(epoch=st.integers(-1, 12))
    def look_up_epoch(self, epoch: int) -> None:
        """Find the first batch of a later epoch, and the one before it, by a linear scan."""
        end = self.log.epochs.end_of(epoch, self.log.log_end_offset)
        epochs = [(it.partition_leader_epoch, it.base_offset) for it in self.log.batches()]
        later = [offset for it, offset in epochs if it > epoch]
        known = [it for it, _ in epochs if it <= epoch]
        if later and known:
            assert end == (known[-1], later[0])

    def records(self) -> list[Record]:
        """All records, by a scan of the whole log."""
        return [record for it in self.log.batches() for record in it]

    def teardown(self) -> None:
        """Close the files and remove them."""
        if hasattr(self, "pool"):
            assert len(self.pool) <= 2
            self.pool.close()
            self.directory.cleanup()

    @invariant()
    def holds_what_was_appended(self) -> None:
        """Size, end, and each batch with its offsets and its leader's epoch."""
        assert self.log.size_bytes == sum(it.size_bytes for it in self.model)
        if self.model:
            assert self.log.log_end_offset == self.model[-1].last_offset + 1
        stored = [
            (it.base_offset, it.last_offset, it.max_timestamp_ms, it.size_bytes)
            for it in self.log.batches()
        ]
        assert stored == [tuple(it) for it in self.model]
        epochs = [(it.partition_leader_epoch, it.base_offset) for it in self.log.batches()]
        firsts = [
            it for index, it in enumerate(epochs) if not index or epochs[index - 1][0] < it[0]
        ]
        starts = [tuple(it) for it in self.log.epochs.starts]
        if firsts or not self.log.log_start_offset:
            assert starts == firsts
        else:  # the last epoch of a log whose batches retention dropped is kept, at its start
            assert [offset for _, offset in starts] in ([], [self.log.log_start_offset])


TestLogBesideModel = LogBesideModel.TestCase
TestLogBesideModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_last_batch_is_cut_off_at_the_limit_of_bytes() -> None:
    """As in Kafka: every client must bear it. The first batch comes whole (KIP-74)."""
    log = PartitionLog(MemoryStore())
    sizes = [append(log, 1, 2).size_bytes for _ in range(3)]

    cut = b"".join(log.read(0, limit_offset=6, max_bytes=sizes[0] + 10))
    whole = b"".join(log.read(2, limit_offset=6, max_bytes=1))

    assert len(cut) == sizes[0] + 10
    assert [it.offset for it in read_records(cut)] == [0, 1]
    assert [it.offset for it in read_records(whole)] == [2, 3]
    assert log.read(2, limit_offset=6, max_bytes=1, whole_first=False) == []


def test_a_batch_that_holds_the_limit_is_not_read() -> None:
    """A high watermark within a batch, as a follower held in the middle makes it."""
    log = PartitionLog(MemoryStore())
    append(log, 1, 2, 3)

    assert log.read(0, limit_offset=2, max_bytes=1 << 20) == []
    assert log.bytes_between(0, 2, enough=1 << 20) == 0


@pytest.mark.parametrize("interval", [0, 4_096])
def test_relative_offsets_do_not_overflow(interval: int) -> None:
    """A segment ends before an offset that is 2³¹ above its base (KAFKA-6530)."""
    log = PartitionLog(MemoryStore(), rules=SegmentRules(index_interval_bytes=interval))
    append(log, 1)
    log.log_end_offset = 2**31 - 2
    append(log, 5, 6)  # its last offset is 2³¹−1
    assert len(log.segments) == 1
    append(log, 7)

    assert len(log.segments) == 2
    assert [it.base_offset for it in log.batches()] == [0, 2**31 - 2, 2**31]
    found = first_record_at(log, 7)
    assert found is not None
    assert found.offset == 2**31
