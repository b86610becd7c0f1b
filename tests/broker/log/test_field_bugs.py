"""Faults that Kafka's log once had, each named after the behaviour; all but compaction's.

Rows of the table that have their test elsewhere: KAFKA-6388 and 6530 (`test_segment_rules`,
`test_partition_log`), 10706 (`test_epochs`), 12153 (`test_transactions`), 12177 and 7400
(`test_retention`, `test_delete_records`), 5413, 4451 and 7278 (`cleaning.test_field_bugs`), 12520
(`cleaning.test_crashes`).
"""

import itertools
import random
import uuid
from typing import TYPE_CHECKING

import pytest

from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.durable_logs import DurableLogs, Storage
from kprod.broker.log.file_deletion import delete_later
from kprod.broker.log.identity import CLEAN_CLOSE_FILE
from kprod.broker.log.loading import LoadOptions, load_log
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.producer_snapshot import ProducerRow, decode_snapshot
from kprod.broker.log.retention import RetentionLimits, apply_retention
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.time_lookup import first_record_at, latest_record
from kprod.broker.metadata_file import ClusterFacts, TopicFacts, read_facts
from kprod.clock import ManualClock
from kprod.model import Codec, TopicPartition
from kprod.record.control import ControlType, EndMarker, encode_marker_batch
from kprod.record.reader import read_batches
from tests.broker.log.crash_disk import CrashDisk, Stopped
from tests.oracle.record_v2 import encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kprod.broker.log.transaction_index import AbortedTransaction

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


@pytest.mark.parametrize("seed", range(8))
def test_indexes_of_a_flushed_segment_survive_a_crash_after_its_end(seed: int) -> None:
    """The next start does not look into a segment below the recovery point."""
    disk = CrashDisk(seed)
    logs, log = started(disk)
    for timestamp_ms in (100, 300, 200):
        append(log, timestamp_ms)
        log.flush()
    log.roll(0)
    append(log, 400)
    log.flush()
    logs._directories[0].write_recovery_points()
    disk.crash()

    _, log = started(disk)

    assert log.log_end_offset == 4
    assert log.segments[0].largest.timestamp_ms == 300
    found = first_record_at(log, 150)
    assert found is not None
    assert found.offset == 1


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


def test_the_mark_of_a_clean_close_comes_last() -> None:
    """Wherever a close stops, the directory has the mark only if everything is synced."""
    is_closed = False
    for stop in itertools.count(1):
        disk = CrashDisk(0)
        logs, log = started(disk)
        append(log, 1, sequence=0)
        disk.stop_at = disk.calls + stop
        try:
            logs.close(facts_of(1))
            is_closed = True
        except Stopped:
            pass
        assert not disk.exists(f"{ROOT}/{CLEAN_CLOSE_FILE}") or unsynced(disk) == []
        if is_closed:
            break
    assert disk.exists(f"{ROOT}/{CLEAN_CLOSE_FILE}")
    assert stop > 10


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


def write_three_segments(log: PartitionLog) -> None:
    """Batches of one producer at offsets 1, 2 and 3, each in a segment of its own."""
    for sequence in (1, 2, 3):
        append(log, sequence, sequence=sequence)
        log.roll(0)


def test_a_late_removal_takes_no_file_that_was_made_since() -> None:
    """Segments cut off and written again have the old ones' names (KAFKA-12964)."""
    disk = CrashDisk(0)
    logs, log = started(disk)
    later: list[Callable[[], object]] = []
    log.delete_files = delete_later(lambda _, action: later.append(action))
    append(log, 0, sequence=0)
    log.roll(0)
    write_three_segments(log)
    log.truncate_to(1)
    log.producers.rebuild(log.batches())
    assert [name for name in names_of(disk) if name.endswith(".log.deleted")]
    write_three_segments(log)
    log.flush()
    made = {name for name in names_of(disk) if not name.endswith(".deleted")}
    assert {f"{it:020d}{kind}" for it in (2, 3, 4) for kind in (".log", ".snapshot")} <= made

    for action in later:
        action()

    assert set(names_of(disk)) == made
    logs.abandon()
    _, log = started(disk)
    assert [it.base_offset for it in log.batches()] == [0, 1, 2, 3]
    assert log.producers.duplicate_of(next(read_batches(sent(3)))) is not None


def test_a_snapshot_behind_a_corrupt_batch_is_not_the_new_segments() -> None:
    """It is put aside at once, and a segment with the same base gets its own (KAFKA-12964)."""
    disk = CrashDisk(0)
    logs, log = started(disk)
    append(log, 0, sequence=0)
    log.roll(0)
    write_three_segments(log)
    log.flush()
    logs.abandon()
    torn = disk.names[f"{PLACE}/{1:020d}.log"]
    assert torn is not None
    torn.content[70] ^= 1

    # As if nothing but the first batch had been synced.
    store = log.store
    log = load_log(store, LoadOptions(RULES, recovery_point=1)).log
    assert log.log_end_offset == 1
    plain = {name for name in names_of(disk) if name.endswith(".snapshot")}
    assert plain == {f"{1:020d}.snapshot"}
    for sequence in (1, 2, 3):
        append(log, sequence + 10, sequence=sequence)
        log.roll(0)
    log.flush()

    log = load_log(store, LoadOptions(RULES, recovery_point=4)).log

    assert [it.max_timestamp_ms for it in log.batches()] == [0, 11, 12, 13]
    assert log.producers.duplicate_of(next(read_batches(sent(3)))) is not None
    assert log.producers.check(next(read_batches(sent(4)))) == (0, "")


def append_transactional(log: PartitionLog, producer_id: int, sequence: int) -> None:
    """Append a batch of a transaction."""
    encoded = encode_batch(
        [(0, b"k", b"v", ())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    append_and_note(log, encoded)


def abort(log: PartitionLog, producer_id: int) -> None:
    """Append the marker of an aborted transaction."""
    marker = EndMarker(ControlType.ABORT, 0)
    append_and_note(
        log,
        encode_marker_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=0),
    )


def append_and_note(log: PartitionLog, encoded: bytes | bytearray) -> None:
    """Append a batch, and note the transaction that it ends, as a partition does."""
    view = memoryview(bytearray(encoded))
    batch = next(read_batches(view))
    ended = log.producers.remember(batch, log.append(batch, view, leader_epoch=0))
    if ended is not None:
        log.note_ended(ended)


def aborted_of(log: PartitionLog) -> list["AbortedTransaction"]:
    """All entries of the log's transaction indexes."""
    return [it for segment in log.segments for it in segment.aborted]


def producers_of(log: PartitionLog) -> list[ProducerRow]:
    """The state of the log's producers."""
    return sorted(decode_snapshot(log.producers.encoded()))


def written_transactions(store: DirectoryStore) -> PartitionLog:
    """A log with two transactions that were aborted in later segments, and one that is open."""
    log = PartitionLog(store, rules=RULES)
    append_transactional(log, 7, 0)  # at offset 0, aborted at 3
    log.roll(0)
    append_transactional(log, 8, 0)  # at offset 1, aborted at 5
    append_transactional(log, 7, 1)
    log.roll(0)
    abort(log, 7)
    append_transactional(log, 7, 2)  # at offset 4, open
    log.roll(0)
    abort(log, 8)
    return log


@pytest.mark.parametrize("recovery_point", range(7))
@pytest.mark.parametrize("lost", [(), (4,), (5,), (2, 4, 5)])
def test_transactions_are_recovered_from_the_middle(
    recovery_point: int, lost: tuple[int, ...]
) -> None:
    """From whichever snapshot is left, and each transaction once (KAFKA-5249)."""
    disk = CrashDisk(0)
    disk.make_directory("/orders-0")
    store = DirectoryStore(disk, "/orders-0")
    log = written_transactions(store)
    expected, producers = aborted_of(log), producers_of(log)
    assert [it[:3] for it in expected] == [(7, 0, 3), (8, 1, 5)]
    for offset in lost:
        store.remove(f"{offset:020d}.snapshot")

    for _ in range(2):  # what a recovery writes serves the next one
        log = load_log(store, LoadOptions(RULES, recovery_point=recovery_point)).log

        assert aborted_of(log) == expected
        assert producers_of(log) == producers
        log.producers.transactions.note_high_watermark(log.log_end_offset)
        assert log.producers.transactions.first_unstable_offset == 4


def test_no_snapshot_is_left_beyond_the_end_of_a_cut_log() -> None:
    """After a truncation, whether or not its segment stays; and recovery is right (KAFKA-5249)."""
    for offset in range(7):
        disk = CrashDisk(0)
        disk.make_directory("/orders-0")
        store = DirectoryStore(disk, "/orders-0")
        log = written_transactions(store)
        log.truncate_to(offset)
        log.producers.rebuild(log.batches())

        snapshots = [int(name[:20]) for name in store.names() if name.endswith(".snapshot")]
        assert all(it <= offset for it in snapshots)
        assert all(it.last_offset < offset for it in aborted_of(log))
        expected = producers_of(log)
        log = load_log(store, LoadOptions(RULES, recovery_point=offset)).log
        assert producers_of(log) == expected


def test_a_batch_too_far_from_its_segments_base_ends_the_log() -> None:
    """A relative offset of 2³¹ fits no index: recovery cuts there, and says so (KAFKA-6264)."""
    disk = CrashDisk(0)
    disk.make_directory("/orders-0")
    store = DirectoryStore(disk, "/orders-0")
    file = store.create(f"{0:020d}.log")
    for base_offset in (0, 2**31 - 1, 2**31):
        file.append(memoryview(encode_batch([(5, b"k", b"v", ())], base_offset=base_offset)))

    loaded = load_log(store, LoadOptions(RULES))

    assert [it.base_offset for it in loaded.log.batches()] == [0, 2**31 - 1]
    assert loaded.cut_offset == 2**31
    assert loaded.cut_bytes == len(encode_batch([(5, b"k", b"v", ())]))
    append(loaded.log, 6)
    assert [it.base_offset for it in loaded.log.segments] == [0, 2**31]


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
