"""Faults that Kafka's log once had, each named after the behaviour; all but compaction's.

Rows of the table that have their test elsewhere: KAFKA-6388 and 6530 (`test_segment_rules`,
`test_partition_log`), 10706 (`test_epochs`), 12153 (`test_transactions`), 12177 and 7400
(`test_retention`, `test_delete_records`), 12964 (`test_retention`).
"""

import random
import uuid

import pytest

from kprod.broker.log.durable_logs import DurableLogs, Storage
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.retention import RetentionLimits, apply_retention
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.time_lookup import first_record_at, latest_record
from kprod.broker.metadata_file import ClusterFacts, TopicFacts, read_facts
from kprod.clock import ManualClock
from kprod.model import Codec, TopicPartition
from kprod.record.reader import read_batches
from tests.broker.log.crash_disk import CrashDisk, Stopped
from tests.oracle.record_v2 import encode_batch

PARTITION = TopicPartition("orders", 0)
ROOT = "/kept"
PLACE = f"{ROOT}/orders-0"
RULES = SegmentRules(segment_bytes=1 << 20, index_interval_bytes=4_096)


def facts_of(topic_id: int | None) -> ClusterFacts:
    """One topic of one partition, or none."""
    topics = [] if topic_id is None else [topic_facts(topic_id)]
    return ClusterFacts(topics=topics, created_count=1, next_producer_id=1_000)


def topic_facts(topic_id: int) -> TopicFacts:
    """The topic with one of its ids."""
    return TopicFacts(
        name="orders",
        topic_id=uuid.UUID(int=topic_id),
        settings={},
        assignment=[[0]],
        leader_epochs=[0],
    )


def started(disk: CrashDisk, topic_id: int = 1) -> tuple[DurableLogs, PartitionLog]:
    """Open the logs, and the one of the topic."""
    logs = DurableLogs(
        Storage(disk, (ROOT,)),
        cluster_id="test",
        node_id=0,
        clock=ManualClock(timestamp_ms=1_700_000_000_000),
        after=lambda _, __: None,
        high_watermarks=dict,
    )
    if logs.open() is None:
        logs.write_down(facts_of(topic_id))
    log = logs.log_of(PARTITION, uuid.UUID(int=topic_id))
    log.rules = RULES
    return logs, log


def append(log: PartitionLog, *timestamps_ms: int, sequence: int = -1, epoch: int = 0) -> None:
    """Append a batch with a record for each timestamp, of a producer if there is a sequence."""
    rows = [(timestamp_ms, b"k", b"value", ()) for timestamp_ms in timestamps_ms]
    producer = {} if sequence < 0 else {"producer_id": 7, "producer_epoch": 0}
    encoded = memoryview(
        bytearray(encode_batch(rows, base_sequence=sequence, **producer))  # type: ignore[arg-type]
    )
    batch = next(read_batches(encoded))
    base_offset = log.append(batch, encoded, leader_epoch=epoch)
    log.producers.remember(batch, base_offset)


def unsynced(disk: CrashDisk) -> list[str]:
    """Files of the partition whose bytes, or whose names, a crash could take."""
    files = [
        path
        for path, file in disk.names.items()
        if path.startswith(PLACE) and file is not None and file.unsynced
    ]
    return files + [directory for directory, _ in disk.changes if directory == PLACE]


def names_of(disk: CrashDisk) -> list[str]:
    """Names in the partition's directory."""
    return sorted(path.rpartition("/")[2] for path in disk.names if path.startswith(f"{PLACE}/"))


def test_a_new_segment_and_its_snapshot_survive_once_flushed() -> None:
    """Names, batches, indexes and producers (KAFKA-3968, KAFKA-9892)."""
    disk = CrashDisk(0)
    _, log = started(disk)
    for number in range(3):
        append(log, number, sequence=number)
        log.roll(0)
    append(log, 9, sequence=3)
    assert unsynced(disk)

    log.flush()

    assert unsynced(disk) == []
    assert sum(name.endswith(".snapshot") for name in names_of(disk)) == 3


def test_a_new_epoch_survives_before_it_is_told() -> None:
    """The file is replaced as a whole and synced (KAFKA-16541); epoch 0 too (KAFKA-10432)."""
    disk = CrashDisk(0)
    _, log = started(disk)
    for epoch in (0, 5):
        append(log, 1, epoch=epoch)
        path = f"{PLACE}/leader-epoch-checkpoint"
        file = disk.names[path]
        assert file is not None
        assert file is disk.synced_names.get(path)
        assert not file.unsynced
        assert f"\n{epoch} " in file.synced.decode()


@pytest.mark.parametrize("stop", range(2, 14))
def test_a_crash_while_loading_is_not_taken_for_a_clean_end(stop: int) -> None:
    """The mark goes first; the next start checks the log (KAFKA-10471)."""
    disk = CrashDisk(stop)
    logs, log = started(disk)
    append(log, 1)
    logs.close(facts_of(1))
    disk.calls, disk.stop_at = 0, stop
    with pytest.raises(Stopped):
        start_often(disk)
    disk.crash()
    is_marked = f"{ROOT}/.kafka_cleanshutdown" in disk.names  # the crash came before all else

    logs, log = started(disk)

    assert logs.summary.recovered_count == (0 if is_marked else 1)
    assert log.log_end_offset == 1


def start_often(disk: CrashDisk) -> None:
    """Start and end without a close; a start after a clean end makes few calls."""
    for _ in range(14):
        logs, _ = started(disk)
        logs.abandon()


def test_a_start_that_fails_leaves_no_mark() -> None:
    """The log was not loaded, so its end is not known (KAFKA-15375)."""
    disk = CrashDisk(0)
    logs, log = started(disk)
    append(log, 1)
    logs.close(facts_of(1))

    def fail(path: str) -> None:
        raise OSError(5, "no more", path)

    disk.sync = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no more"):
        started(disk)[0].close(facts_of(1))
    del disk.sync

    logs, _ = started(disk)
    assert logs.summary.recovered_count == 1


def test_what_was_recovered_survives_the_next_crash() -> None:
    """It is synced before it is served, and only then the recovery point moves (KAFKA-10101)."""
    disk = CrashDisk(0)
    logs, log = started(disk)
    for number in range(4):
        append(log, number)
    logs.abandon()

    logs, log = started(disk)

    assert log.recovery_point == log.log_end_offset == 4
    assert unsynced(disk) == []


def test_recovery_takes_the_newest_sound_snapshot() -> None:
    """One that is not sound is removed, and those of present segments stay (KAFKA-5829, 5747)."""
    disk = CrashDisk(0)
    logs, log = started(disk)
    for number in range(3):
        append(log, number, sequence=number)
        log.roll(0)
    append(log, 9, sequence=3)
    log.flush()
    logs.abandon()
    newest = disk.names[f"{PLACE}/{3:020d}.snapshot"]
    assert newest is not None
    newest.content[8] ^= 1

    _, log = started(disk)

    repeated, following = next(read_batches(sent(3))), next(read_batches(sent(4)))
    assert log.producers.duplicate_of(repeated) is not None
    assert log.producers.check(following) == (0, "")
    left = {name for name in names_of(disk) if name.endswith(".snapshot")}
    assert {f"{1:020d}.snapshot", f"{2:020d}.snapshot"} <= left


def sent(sequence: int) -> bytes:
    """A batch of one record of a producer."""
    rows = [(0, b"k", b"v", ())]
    return encode_batch(rows, producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_an_empty_active_segment_needs_no_recovery() -> None:
    """Its files are written and synced at a close, too (KAFKA-13603)."""
    disk = CrashDisk(0)
    logs, log = started(disk)
    append(log, 1)
    log.roll(0)
    logs.close(facts_of(1))
    disk.crash()

    logs, log = started(disk)

    assert logs.summary.recovered_count == 0
    assert [it.base_offset for it in log.segments] == [0, 1]


def test_times_that_go_down_are_found_after_a_truncation() -> None:
    """Time index and largest timestamp are of the batches that are left (KAFKA-4734, 12981)."""
    log = PartitionLog(MemoryStore())
    for timestamp_ms in (5, 3, 9, 4):
        append(log, timestamp_ms)
    log.truncate_to(2)

    found = latest_record(log)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (0, 5)
    assert first_record_at(log, 6) is None
    append(log, 7)
    found = first_record_at(log, 6)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, 7)


def test_the_largest_timestamp_is_a_records_not_its_batchs() -> None:
    """In a compressed batch with the largest in the middle (KAFKA-16310)."""
    log = PartitionLog(MemoryStore())
    rows = [(timestamp_ms, b"k", b"v", ()) for timestamp_ms in (1, 9, 2)]
    encoded = memoryview(bytearray(encode_batch(rows, codec=Codec.GZIP)))
    log.append(next(read_batches(encoded)), encoded, leader_epoch=0)

    found = latest_record(log)

    assert found is not None
    assert (found.offset, found.timestamp_ms) == (1, 9)


def test_a_write_that_fails_gives_no_offset_twice() -> None:
    """The log ends where it did, and the next batch gets that offset (KAFKA-7866)."""
    disk = CrashDisk(0)
    _, log = started(disk)
    append(log, 1)
    before = disk.write

    def fail(path: str, position: int, content: bytes | memoryview) -> None:
        raise OSError(28, "no space", path, position, content and None)

    disk.write = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no space"):
        append(log, 2)
    disk.write = before  # type: ignore[method-assign]

    assert log.log_end_offset == 1
    append(log, 3)
    assert [it.base_offset for it in log.batches()] == [0, 1]


def test_segments_are_dropped_while_they_are_read() -> None:
    """A reader between any two drops sees whole batches from the start on (KAFKA-12955)."""
    log = PartitionLog(MemoryStore(), rules=SegmentRules(segment_bytes=1))
    for number in range(6):
        append(log, number)
    for left in range(5, 0, -1):
        limits = RetentionLimits(retention_bytes=left * (log.size_bytes // (left + 1)))
        assert apply_retention(log, limits, high_watermark=6, now_ms=0) == 1
        start = log.log_start_offset
        assert start == 6 - left
        pieces = log.read(start, limit_offset=6, max_bytes=1 << 20)
        assert next(read_batches(b"".join(pieces))).base_offset == start


@pytest.mark.parametrize("seed", range(3))
def test_a_topic_made_again_never_meets_its_old_records(seed: int) -> None:
    """Delete and make again, with a crash at each step (KAFKA-14616)."""
    stop = 0
    while True:
        stop += 1
        disk = CrashDisk(seed)
        logs, log = started(disk)
        append(log, 1)
        log.flush()
        disk.calls, disk.stop_at = 0, stop
        try:
            make_again(logs)
        except Stopped:
            disk.crash()
        else:
            break
        known = known_topic(disk)
        if known is None:
            continue
        logs, log = started(disk, known)
        times = [record.timestamp_ms for batch in log.batches() for record in batch]
        assert times in ([[1]] if known == 1 else [[], [2], [2, 3]])
    assert stop > 10


def make_again(logs: DurableLogs) -> None:
    """Delete the topic, make another of its name, and append to that."""
    logs.write_down(facts_of(None))
    logs.drop(PARTITION)
    logs.write_down(facts_of(2))
    log = logs.log_of(PARTITION, uuid.UUID(int=2))
    log.rules = RULES
    append(log, 2)
    append(log, 3)


def known_topic(disk: CrashDisk) -> int | None:
    """Return the topic's id in the metadata after a crash."""
    facts = read_facts(disk, ROOT)
    assert facts is not None
    return facts.topics[0].topic_id.int if facts.topics else None


def test_a_directory_that_cannot_be_renamed_is_not_the_new_topics() -> None:
    """The deletion is done all the same, and the name is used again when it is free."""
    disk = CrashDisk(random.Random(0).randrange(9))
    logs, log = started(disk)
    append(log, 1)
    before = disk.rename

    def fail(path: str, new_path: str) -> None:
        raise OSError(5, "no more", path, None, new_path)

    disk.rename = fail  # type: ignore[method-assign]
    logs.drop(PARTITION)
    with pytest.raises(OSError, match="no more"):
        logs.log_of(PARTITION, uuid.UUID(int=2))
    disk.rename = before  # type: ignore[method-assign]

    log = logs.log_of(PARTITION, uuid.UUID(int=2))

    assert log.log_end_offset == 0
    assert names_of(disk) == ["partition.metadata"]
