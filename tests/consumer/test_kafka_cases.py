"""Cases of Kafka's own FetcherTest and OffsetFetcherTest, with the names that they have there.

`kafka_tests` lists all cases, and the test of each.
"""

import struct
from typing import Any

from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.consumer.sealing import COUNT, RECORDS, sealed
from tests.network.scripted import PeerRequest
from tests.network.scripted_logs import Log, LogCluster

P0 = TopicPartition("orders", 0)
ABORT, COMMIT = 0, 1
FIRST, SECOND = 1, 2  # producer ids


def send(log: Log, producer_id: int, offset: int, *values: bytes, **fields: Any) -> None:
    """Put a batch of a transaction into a log."""
    log.append(
        *values,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        **fields,
    )


def end(log: Log, producer_id: int, offset: int, kind: int) -> None:
    """Put a marker into a log: its key has a version and a type."""
    send(log, producer_id, offset, b"\x00\x00\x00\x00\x00\x00", is_control=True)
    first, last, batch = log.entries[-1]
    log.entries[-1] = (first, last, marked(batch, kind))


def marked(batch: bytes, kind: int) -> bytes:
    """A batch of one record whose key `key` becomes a marker's."""
    body = batch[RECORDS:]
    length_at = body.index(b"\x06key")
    record = body[1:length_at] + b"\x08" + struct.pack(">hh", 0, kind) + body[length_at + 4 :]
    return sealed(batch[:RECORDS] + bytes([len(record) * 2]) + record)


def read_committed(log: Log, *aborted: tuple[int, int]) -> tuple[list[bytes], int]:
    """Values of the committed records, and the position at the end.

    Args:
        log: The only partition's.
        aborted: Producer id and first offset of the aborted transactions that the broker lists.

    Returns:
        Both.
    """
    cluster = LogCluster(log)
    told = [{"producer_id": it, "first_offset": first} for it, first in aborted]

    def answer(made: LogCluster, node_id: int, request: PeerRequest) -> dict[str, Any] | None:
        if request.api_key != ApiKey.FETCH:
            return None
        usual = made.usual_response(node_id, request)
        for topic in usual["responses"]:
            for partition in topic["partitions"]:
                partition["aborted_transactions"] = told
        return usual

    cluster.rules.append(answer)
    with scripted_consumer(cluster, "orders", isolation_level="read_committed") as consumer:
        found = scripted_poll(consumer, 100, seconds=2)
        return [it.value for it in found], consumer.position(P0)


def test_read_committed_with_compacted_topic() -> None:
    """Records of both transactions are gone, and the committed one's marker as well."""
    log = Log()
    send(log, FIRST, 0, b"committed", offset_deltas=[2], last_offset_delta=2)
    send(log, SECOND, 4, b"aborted", offset_deltas=[1], last_offset_delta=3)
    end(log, SECOND, 9, ABORT)
    send(log, SECOND, 12, b"later")
    end(log, SECOND, 13, COMMIT)
    assert read_committed(log, (SECOND, 3)) == ([b"committed", b"later"], 14)


def test_multiple_abort_markers() -> None:
    """A second marker of the same producer ends nothing more."""
    log = Log()
    send(log, FIRST, 0, b"aborted", b"aborted too")
    end(log, FIRST, 2, ABORT)
    end(log, FIRST, 3, ABORT)
    send(log, FIRST, 4, b"c1", b"c2")
    end(log, FIRST, 6, COMMIT)
    assert read_committed(log, (FIRST, 0)) == ([b"c1", b"c2"], 7)


def test_update_position_with_last_record_missing_from_batch() -> None:
    """Compaction took it; the position is after the batch's last offset."""
    log = Log()
    log.append(b"0", b"1", offset_deltas=[0, 1], last_offset_delta=3)
    log.entries[0] = (0, 3, log.entries[0][2])
    with scripted_consumer(LogCluster(log), "orders") as consumer:
        assert [it.offset for it in scripted_poll(consumer, 2)] == [0, 1]
        consumer.poll(0.1)
        assert consumer.position(P0) == 4


def test_empty_control_batch() -> None:
    """A marker that compaction has emptied still takes its offset."""
    log = Log()
    log.append(b"first")
    log.append(b"x", is_control=True, is_transactional=True, producer_id=FIRST)
    first, last, batch = log.entries[1]
    log.entries[1] = (first, last, sealed(batch[:COUNT] + bytes(4)))
    send(log, SECOND, 2, b"second")
    end(log, SECOND, 3, COMMIT)
    assert read_committed(log) == ([b"first", b"second"], 4)


def two_partitions() -> LogCluster:
    """Ten records in each."""
    logs = [Log(), Log()]
    for log in logs:
        for number in range(10):
            log.append(b"%d" % number)
    return LogCluster(*logs)


def test_fetch_on_completed_fetches_for_some_paused_partitions() -> None:
    """Fetched records of the paused one stay, and are not fetched again when it is resumed."""
    cluster = two_partitions()
    with scripted_consumer(cluster, "orders", max_poll_records=1) as consumer:
        (first,) = scripted_poll(consumer, 1)
        key = TopicPartition("orders", first.partition)
        consumer.pause(key)
        found = scripted_poll(consumer, 10)
        assert {it.partition for it in found} == {1 - first.partition}
        asked = cluster.count(ApiKey.FETCH)
        consumer.resume(key)
        rest = [consumer.poll(0)[0].offset for _ in range(9)]
        assert rest == list(range(1, 10))
        assert cluster.count(ApiKey.FETCH) == asked


def test_fetch_discarded_after_paused_partition_resumed_and_sought_to_new_offset() -> None:
    """The old position's records are dropped, although they were fetched."""
    cluster = two_partitions()
    with scripted_consumer(cluster, max_poll_records=1) as consumer:
        consumer.assign([P0])
        scripted_poll(consumer, 1)
        consumer.pause(P0)
        assert consumer.poll(0.1) == []
        consumer.seek(P0, 7)
        consumer.resume(P0)
        assert [it.offset for it in scripted_poll(consumer, 3)] == [7, 8, 9]


def test_change_reset_with_in_flight_reset() -> None:
    """The later wish decides, whichever answer comes first."""
    cluster = two_partitions()
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        scripted_poll(consumer, 1)
        for _ in range(3):
            consumer.seek_to_end(P0)
            consumer._kprod.parts.loop.run_once(cluster.clock.now_ms())  # type: ignore[union-attr]
            consumer.seek_to_beginning(P0)
            assert consumer.position(P0) == 0
            consumer.seek_to_beginning(P0)
            consumer._kprod.parts.loop.run_once(cluster.clock.now_ms())  # type: ignore[union-attr]
            consumer.seek_to_end(P0)
            assert consumer.position(P0) == 10


def test_idempotent_reset_with_in_flight_reset() -> None:
    """The same wish twice ends at the same offset, and reading continues there."""
    cluster = two_partitions()
    with scripted_consumer(cluster) as consumer:
        consumer.assign([P0])
        scripted_poll(consumer, 5)
        consumer.seek_to_beginning(P0)
        consumer._kprod.parts.loop.run_once(cluster.clock.now_ms())  # type: ignore[union-attr]
        consumer.seek_to_beginning(P0)
        assert [it.offset for it in scripted_poll(consumer, 10)] == list(range(10))


def test_going_back_to_an_old_offset() -> None:
    """Every record from there on comes again, once."""
    with scripted_consumer(two_partitions()) as consumer:
        consumer.assign([P0])
        assert len(scripted_poll(consumer, 10)) == 10
        consumer.seek(P0, 3)
        assert [it.offset for it in scripted_poll(consumer, 7)] == list(range(3, 10))


def test_jumping_to_the_newest() -> None:
    """Prefetched records are dropped; only later ones are read."""
    cluster = two_partitions()
    with scripted_consumer(cluster, max_poll_records=1) as consumer:
        consumer.assign([P0])
        scripted_poll(consumer, 1)
        consumer.seek_to_end(P0)
        assert consumer.poll(0.2) == []
        cluster.logs[0].append(b"new")
        assert [it.offset for it in scripted_poll(consumer, 1)] == [10]
