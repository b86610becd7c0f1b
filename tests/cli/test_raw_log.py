"""A partition's batches as they are stored."""

from kprod.cli.raw_log import last_offset_of, raw_entries
from kprod.model import TopicPartition
from kprod.record.entries import LogEntry
from tests.consumer.reading import scripted_consumer
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster
from tests.oracle.message_set import encode_message

P0 = TopicPartition("orders", 0)


def entries(log: Log, start: int = 0, end: int | None = None) -> list[LogEntry]:
    """Entries of the log, read in small fetches."""
    with scripted_consumer(LogCluster(log), max_partition_fetch_bytes=100) as consumer:
        return list(raw_entries(consumer, P0, start, log.end_offset if end is None else end))


def test_entries_are_given_as_they_are() -> None:
    """Batches and old messages, markers too, each once."""
    log = Log()
    log.entries.append((0, 0, encode_message((0, 5, b"k", b"old"), magic=1)))
    log.append(b"a", b"b")
    log.append(b"marker", base_offset=7, is_control=True, is_transactional=True)
    assert [entry.magic for entry in entries(log)] == [1, 2, 2]


def test_a_range_takes_whole_batches() -> None:
    """Those that have an offset of it, and no others."""
    log = Log()
    for _ in range(5):
        log.append(b"a", b"b", b"c")
    assert [last_offset_of(entry) for entry in entries(log, 4, 10)] == [5, 8, 11]
    assert entries(log, 4, 4) == []


def test_a_damaged_batch_is_given() -> None:
    """Its checksum is for others to judge."""
    log = Log()
    log.append(b"a")
    log.append(b"b")
    first, last, batch = log.entries[0]
    log.entries[0] = (first, last, batch[:-1] + b"\xff")
    assert [last_offset_of(entry) for entry in entries(log)] == [0, 1]


def test_a_log_that_loses_its_beginning() -> None:
    """It continues where the log now begins."""
    log = Log()
    for _ in range(4):
        log.append(b"a")
    cluster = LogCluster(log)

    def expire(expired: LogCluster, _node_id: int, request: PeerRequest) -> None:
        if request.body.get("max_wait_ms") is not None:
            expired.logs[0].start_offset = 2

    cluster.rules.append(expire)
    with scripted_consumer(cluster) as consumer:
        found = [last_offset_of(entry) for entry in raw_entries(consumer, P0, 0, 4)]
    assert found == [2, 3]


def test_a_range_that_is_deleted_meanwhile() -> None:
    """It ends at once, with records behind it and without."""
    for record_count in (4, 6):
        log = Log()
        for _ in range(record_count):
            log.append(b"a")
        cluster = LogCluster(log)

        def expire(expired: LogCluster, _node_id: int, request: PeerRequest) -> None:
            if request.body.get("max_wait_ms") is not None:
                expired.logs[0].start_offset = 4

        cluster.rules.append(expire)
        with scripted_consumer(cluster) as consumer:
            began_ms = cluster.clock.now_ms()
            assert list(raw_entries(consumer, P0, 0, 4)) == []
            assert cluster.clock.now_ms() - began_ms < 5_000  # of the minute that it would wait


def test_an_entry_behind_a_gap_at_the_end_of_the_range() -> None:
    """It belongs to another range."""
    log = Log()
    log.append(b"a")
    log.append(b"b", base_offset=9)
    assert [last_offset_of(entry) for entry in entries(log, 0, 5)] == [0]
