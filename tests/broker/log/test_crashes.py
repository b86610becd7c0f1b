"""The machine goes off at every call: nothing flushed is lost, nothing torn is visible."""

import struct
import uuid
from collections.abc import Callable, Iterator

import pytest

from kprod.broker.log.durable_logs import DurableLogs, Storage
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.retention import RetentionLimits, apply_retention
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.metadata_file import ClusterFacts, TopicFacts
from kprod.clock import ManualClock
from kprod.errors import CorruptRecord
from kprod.model import TopicPartition
from kprod.record.reader import read_batches
from tests.broker.log.crash_disk import CrashDisk, LateSyncer, Stopped
from tests.oracle.record_v2 import encode_batch

PARTITION = TopicPartition("orders", 0)
OTHER = TopicPartition("clicks", 0)
IDS = {"orders": uuid.UUID(int=1), "clicks": uuid.UUID(int=2)}
RULES = SegmentRules(segment_bytes=3_000, index_interval_bytes=4_096)
# One in each run, the others in `make long`.
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2)))
SAMPLE_STEP = 17


def facts_of(*topics: str) -> ClusterFacts:
    """Topics of one partition each."""
    return ClusterFacts(
        topics=[
            TopicFacts(
                name=name, topic_id=IDS[name], settings={}, assignment=[[0]], leader_epochs=[0]
            )
            for name in topics
        ],
        created_count=len(topics),
        next_producer_id=1_000,
    )


class Machine:
    """A disk, the logs on it, and what must be there after a crash.

    Attributes:
        histories: Possible contents of the first partition: a prefix of one of them.
        flushed_count: Batches of it that no crash may take.
        dropped_count: Batches of it, the oldest ones, that retention may have taken.
    """

    def __init__(self, seed: int) -> None:
        """Make an empty machine."""
        self.disk = CrashDisk(seed)
        self.syncer = LateSyncer(self.disk.rng)
        self.histories: list[list[bytes]] = [[]]
        self.flushed_count = self.dropped_count = 0
        self.later: list[Callable[[], object]] = []
        self.is_other_deleted = False

    def open(self) -> DurableLogs:
        """Start the broker's logs."""
        logs = DurableLogs(
            Storage(self.disk, ("/kept",), self.syncer),
            cluster_id="test",
            node_id=0,
            clock=ManualClock(timestamp_ms=1_700_000_000_000),
            after=lambda _, action: self.later.append(action),
            high_watermarks=dict,
        )
        if logs.open() is None:
            logs.write_down(facts_of("orders", "clicks"))
        return logs

    def run(self) -> None:
        """Append, roll, flush, cut, retain, delete a topic, close, and begin again."""
        logs = self.open()
        log = logs.log_of(PARTITION, IDS["orders"])
        other = logs.log_of(OTHER, IDS["clicks"])
        log.rules = other.rules = RULES
        for number in range(110):
            self._append(log, number)
            self.syncer.run_some()
            if number % 11 == 5:
                self._flush(log)
            if number == 40:
                self._truncate(log, 2 * 33)
            if number == 60:
                append(other, number)
            if number == 100:
                self._retain(log)
            if number == 104:
                self._remove_deleted()
            if number == 80:
                self.is_other_deleted = True
                logs.write_down(facts_of("orders"))
                logs.drop(OTHER)
        whole = len(self.histories[-1])
        logs.close(facts_of("orders"))
        self.flushed_count = whole
        log = self.open().log_of(PARTITION, IDS["orders"])
        log.rules = RULES
        for number in range(4):
            self._append(log, number)

    def check(self) -> None:
        """Start again after a crash; then crash once more."""
        self.syncer.close()
        self.disk.crash()
        first = list(self._visible())
        self.disk.crash()
        assert list(self._visible()) == first, "a batch that was served is gone"
        gone = next(read_batches(first[0])).base_offset // 2 if first else 0
        assert gone <= self.dropped_count, "a batch is gone from the beginning"
        assert gone + len(first) >= self.flushed_count, "a flushed batch is gone"
        assert any(first == it[gone : gone + len(first)] for it in self.histories), (
            "a batch differs from the one sent"
        )

    def _visible(self) -> Iterator[bytes]:
        logs = self.open()
        log = logs.log_of(PARTITION, IDS["orders"])
        end = log.segments[0].base_offset if log.segments else log.log_start_offset
        for batch in log.batches():
            assert batch.base_offset == end
            end = batch.last_offset + 1
            content = bytes(batch.view)
            assert next(read_batches(content, check_crc=True)).size_bytes == len(content)
            yield content
        assert log.log_end_offset == end
        sequences = [it.last_sequence for it in log.batches()]
        if sequences:
            following = next(read_batches(encoded(0, sequences[-1] + 1)))
            assert log.producers.check(following) == (0, "")
        logs.abandon()

    def _append(self, log: PartitionLog, number: int) -> None:
        sequence = 2 * len(self.histories[-1])
        content = bytearray(encoded(number, sequence))
        batch = next(read_batches(bytes(content)))
        # Recorded before the write, since a stop may come after it.
        self.histories[-1].append(b"")
        view = memoryview(content)
        try:
            append_encoded(log, view)
        finally:
            stored = bytearray(encoded(number, sequence))
            log_end = 2 * (len(self.histories[-1]) - 1)
            rewrite(stored, log_end)
            self.histories[-1][-1] = bytes(stored)
        assert batch.record_count == 2

    def _flush(self, log: PartitionLog) -> None:
        whole = len(self.histories[-1])
        log.flush()
        self.flushed_count = whole

    def _retain(self, log: PartitionLog) -> None:
        bases = [it.base_offset for it in log.segments]
        assert len(bases) > 3
        self.dropped_count = bases[-2] // 2
        limits = RetentionLimits(retention_bytes=sum(it.size_bytes for it in log.segments[-2:]))
        assert apply_retention(log, limits, high_watermark=log.log_end_offset, now_ms=0) > 1

    def _remove_deleted(self) -> None:
        later, self.later = self.later, []
        for action in later:
            if "CheckpointTasks" not in str(action):
                action()

    def _truncate(self, log: PartitionLog, offset: int) -> None:
        kept = offset // 2
        self.flushed_count = min(self.flushed_count, kept)
        self.histories.append(self.histories[-1][:kept])
        log.truncate_to(offset)
        log.producers.rebuild(log.batches())


def encoded(number: int, base_sequence: int) -> bytes:
    """A batch of two records of one producer."""
    rows = [((number * 7) % 50, b"k%d" % number, b"v" * 20, ()), (number, None, b"w", ())]
    return encode_batch(rows, producer_id=7, producer_epoch=0, base_sequence=base_sequence)


def rewrite(content: bytearray, base_offset: int) -> None:
    """Give a batch the offset and epoch that the log gives it; no checksum covers them."""
    content[:8] = base_offset.to_bytes(8, "big")
    content[12:16] = (0).to_bytes(4, "big")


def append(log: PartitionLog, number: int) -> None:
    """Append a batch."""
    append_encoded(log, memoryview(bytearray(encoded(number, 0))))


def append_encoded(log: PartitionLog, view: memoryview) -> None:
    """Append a batch as the partition does."""
    batch = next(read_batches(view))
    base_offset = log.append(batch, view, leader_epoch=0)
    log.producers.remember(batch, base_offset)


def call_count() -> int:
    """How many calls the whole workload makes."""
    machine = Machine(0)
    machine.run()
    return machine.disk.calls


def crash_at(stop_at: int, seed: int) -> None:
    """Stop at one call, then check."""
    machine = Machine(seed)
    machine.disk.stop_at = stop_at
    with pytest.raises(Stopped):
        machine.run()
    machine.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_stop_loses_nothing_that_was_flushed(seed: int) -> None:
    """Each write, sync, rename, creation and removal."""
    calls = call_count()
    assert calls >= 200
    for stop_at in range(1, calls):
        crash_at(stop_at, seed)


def test_a_sync_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the checks say something: a flush that syncs no file loses batches."""
    monkeypatch.setattr("kprod.broker.log.log_syncs.LogSyncs._names_of", lambda *_: ())
    lost = 0
    for stop_at in range(100, call_count(), SAMPLE_STEP):
        try:
            crash_at(stop_at, 0)
        except (
            AssertionError,
            struct.error,
            RuntimeError,
            CorruptRecord,
        ):  # gone, or torn within the trusted part
            lost += 1
    assert lost
