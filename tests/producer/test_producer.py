"""The producer against the embedded broker, over TCP: acknowledged records are in the log."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

import kprod
from kprod import errors
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.errors import Persistence
from kprod.model import Record, RecordMetadata
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Three brokers, a topic of four partitions, no auto-creation."""
    config = EmbeddedConfig(auto_create_topics=False)
    with EmbeddedCluster(brokers=3, topics={"orders": 4}, config=config) as running:
        yield running


def _producer(cluster: EmbeddedCluster, **settings: object) -> kprod.Producer:
    return kprod.Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})


def _log(cluster: EmbeddedCluster, topic: str = "orders") -> dict[int, list[Record]]:
    return cluster.records(topic)


def test_acknowledged_records_are_in_the_log(cluster: EmbeddedCluster) -> None:
    """Key, value, headers, timestamp are at the partition and offset that the result names."""
    with _producer(cluster) as producer:
        future = producer.send(
            "orders",
            b"v",
            key=b"k",
            headers=[("h", b"x"), ("n", None)],
            timestamp_ms=1_700_000_000_000,
        )
        metadata = future.result(10)
    record = _log(cluster)[metadata.partition][metadata.offset]
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 1_700_000_000_000)
    assert record.headers == (("h", b"x"), ("n", None))
    assert metadata[4:] == (1, 1)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_arrives_whole_and_in_order(cluster: EmbeddedCluster, codec: str) -> None:
    """Several batches of each partition, compressed as asked, read back in send order."""
    values = [b"%06d" % number * 20 for number in range(2000)]
    with _producer(cluster, compression_type=codec, batch_size=20_000) as producer:
        futures = [
            producer.send("orders", value, partition=number % 4)
            for number, value in enumerate(values)
        ]
        assert producer.flush(20) == 0
        assert {future.result(0).partition for future in futures} == {0, 1, 2, 3}
    log = _log(cluster)
    for partition in range(4):
        assert [record.value for record in log[partition]] == values[partition::4]


def test_a_retried_batch_is_not_duplicated(cluster: EmbeddedCluster) -> None:
    """The broker appends and the response is lost: the batch comes again and is known."""
    with _producer(cluster, retry_backoff_ms=10) as producer:
        assert producer.send("orders", b"warm", partition=0).result(10).offset == 0
        cluster.faults.drop(ApiKey.PRODUCE, times=1, handled=True)
        cluster.faults.disconnect(ApiKey.PRODUCE, times=1, handled=True)
        futures = [producer.send("orders", b"%d" % number, partition=0) for number in range(10)]
        producer.flush(0.05)
        for broker in range(3):
            cluster.disconnect_clients(broker)
        assert [future.result(20).offset for future in futures] == list(range(1, 11))
    assert [r.value for r in _log(cluster)[0]] == [b"warm", *(b"%d" % n for n in range(10))]


def test_a_leader_that_moves_is_followed(cluster: EmbeddedCluster) -> None:
    """NOT_LEADER_OR_FOLLOWER is retried at the new leader, in order."""
    with _producer(cluster, linger_ms=0, retry_backoff_ms=10) as producer:
        for number in range(30):
            if number % 10 == 5:
                leader = cluster.describe("orders", 1).leader_id
                cluster.move_leader("orders", 1, to=(leader + 1) % 3)
            producer.send("orders", b"%d" % number, partition=1).result(20)
    assert [r.value for r in _log(cluster)[1]] == [b"%d" % n for n in range(30)]


def test_a_batch_too_large_for_the_broker_is_split() -> None:
    """MESSAGE_TOO_LARGE halves the batch until it fits; futures and headers follow (KIP-126)."""
    config = EmbeddedConfig(message_max_bytes=3_000)
    with (
        EmbeddedCluster(brokers=1, topics={"orders": 1}, config=config) as cluster,
        _producer(cluster, linger_ms=50) as producer,
    ):
        futures = [
            producer.send("orders", b"%03d" % n * 30, key=b"k", headers=[("n", b"%d" % n)])
            for n in range(100)
        ]
        assert producer.flush(20) == 0
        assert [future.result(0).offset for future in futures] == list(range(100))
        log = cluster.records("orders")[0]
        assert [record.headers for record in log] == [(("n", b"%d" % n),) for n in range(100)]
        assert len(cluster.batches("orders")[0]) > 4


def test_a_rejected_batch_fails_as_not_persisted_and_the_next_is_sent(
    cluster: EmbeddedCluster,
) -> None:
    """A final error names its code; sequences begin again in the next epoch."""
    with _producer(cluster, linger_ms=0) as producer:
        producer.send("orders", b"first", partition=0).result(10)
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
        error = producer.send("orders", b"bad", partition=0).exception(10)
        assert isinstance(error, errors.BrokerError)
        assert error.code == ErrorCode.INVALID_RECORD
        assert error.persistence is Persistence.NOT_PERSISTED
        assert producer.send("orders", b"next", partition=0).result(10).offset == 1
    assert [r.value for r in _log(cluster)[0]] == [b"first", b"next"]


def test_an_unknown_topic_is_named(cluster: EmbeddedCluster) -> None:
    """Auto-creation is off: the error has topic, limit and reason."""
    with (
        _producer(cluster, max_block_ms=300) as producer,
        pytest.raises(errors.UnknownTopic, match=r"'nowhere' .* max_block_ms=300.*UNKNOWN_TOPIC"),
    ):
        producer.send("nowhere", b"v")


def test_a_partition_that_does_not_exist_is_rejected(cluster: EmbeddedCluster) -> None:
    """One refresh, then the error; an added partition is found by it."""
    with _producer(cluster, max_block_ms=3_000) as producer:
        with pytest.raises(errors.UnknownPartition, match="has no partition 4: its last is 3"):
            producer.send("orders", b"v", partition=4)
        assert producer.send("orders", b"v", partition=3).result(10).partition == 3


def test_an_unreachable_broker_is_named_with_the_reason() -> None:
    """Within `max_block_ms`: which address, and why."""
    with (
        kprod.Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=300) as producer,
        pytest.raises(errors.MetadataTimeout, match=r"127\.0\.0\.1:1.*[Rr]efused"),
    ):
        producer.send("orders", b"v")


def test_a_closed_producer_raises(cluster: EmbeddedCluster) -> None:
    """Records sent before are delivered; closing twice is harmless."""
    producer = _producer(cluster, linger_ms=10_000)
    future = producer.send("orders", b"v", partition=0)
    assert producer.close(20) == 0
    assert producer.close() == 0
    assert future.result(0).offset == 0
    with pytest.raises(errors.ClosedError):
        producer.send("orders", b"v")


def test_a_close_that_times_out_counts_lost_records(cluster: EmbeddedCluster) -> None:
    """The brokers are silent: close returns in time, and every future is settled."""
    producer = _producer(cluster, linger_ms=0)
    producer.send("orders", b"first", partition=0).result(10)
    for broker in range(3):
        cluster.faults.stall(broker)
    futures = [producer.send("orders", b"v", partition=p) for p in range(4)]
    assert producer.close(0.1) == 4
    for future in futures:
        assert isinstance(future.exception(10), errors.ClosedError)
    for broker in range(3):
        cluster.faults.resume(broker)


def test_delivery_times_out_while_in_flight() -> None:
    """The batch may be in the log: the error says so, and memory is released in the end."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster:
        producer = _producer(cluster, linger_ms=0, delivery_timeout_ms=400, request_timeout_ms=400)
        producer.send("orders", b"first").result(10)
        cluster.faults.stall(0)
        error = producer.send("orders", b"stuck").exception(10)
        assert isinstance(error, errors.DeliveryTimeout | errors.RequestTimeout)
        assert error.persistence is Persistence.POSSIBLY_PERSISTED
        cluster.faults.resume(0)
        assert producer.send("orders", b"after").result(20).offset >= 1
        producer.close(10)


def test_callbacks_see_metadata_or_error_and_may_send(cluster: EmbeddedCluster) -> None:
    """On the sender's thread, in order; a flush in there is rejected."""
    seen: list[RecordMetadata | None] = []
    rejected: list[errors.KprodError] = []
    again: list[kprod.RecordFuture] = []
    with _producer(cluster) as producer:

        def deliver(metadata: RecordMetadata | None, error: errors.KprodError | None) -> None:
            assert error is None
            seen.append(metadata)
            try:
                producer.flush()
            except errors.KprodError as closed_error:
                rejected.append(closed_error)
            again.append(producer.send("orders", b"again", partition=1))

        first = producer.send("orders", b"v", partition=0, on_delivery=deliver)
        assert first.result(10).offset == 0
        assert producer.flush(10) == 0
        assert again[0].result(10).partition == 1
    assert len(seen) == len(rejected) == 1


def test_futures_bridge_to_asyncio_and_concurrent(cluster: EmbeddedCluster) -> None:
    """Awaited in a loop, waited for as a set, and as a standard future."""
    with _producer(cluster) as producer:

        async def deliver() -> list[RecordMetadata]:
            return [await producer.send("orders", b"v", partition=p) for p in range(3)]

        assert [m.partition for m in asyncio.run(deliver())] == [0, 1, 2]
        futures = [producer.send("orders", b"w", partition=p) for p in range(4)]
        assert futures[0].to_concurrent().result(10).offset == 1
        assert len(list(kprod.as_completed(futures, 10))) == 4
        assert kprod.wait(futures, 10).not_done == set()


def test_many_threads_send_to_one_producer(cluster: EmbeddedCluster) -> None:
    """Each thread's records stay in its order, none is lost or doubled."""

    def run(thread: int) -> None:
        for number in range(500):
            producer.send("orders", b"%d:%d" % (thread, number), partition=number % 4)

    with _producer(cluster, batch_size=2_000, linger_ms=1) as producer:
        threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert producer.flush(30) == 0
    log = _log(cluster)
    for partition in range(4):
        values = [record.value for record in log[partition]]
        for name in range(8):
            mine = [v for v in values if v is not None and v.startswith(b"%d:" % name)]
            assert mine == [b"%d:%d" % (name, n) for n in range(500) if n % 4 == partition]


def test_a_small_buffer_blocks_and_everything_arrives(cluster: EmbeddedCluster) -> None:
    """`send` waits for memory; the bound holds and nothing is lost."""
    with _producer(cluster, buffer_memory=65_536, batch_size=16_384) as producer:
        for _ in range(3000):
            producer.send("orders", b"x" * 200)
        assert producer.flush(30) == 0
    assert sum(len(records) for records in _log(cluster).values()) == 3000


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acks(cluster: EmbeddedCluster, acks: str) -> None:
    """acks=0 has no offset to tell; acks=1 has."""
    with _producer(cluster, acks=acks, linger_ms=0) as producer:
        offset = producer.send("orders", b"v", partition=0).result(10).offset
        assert offset == (-1 if acks == "0" else 0)
        producer.send("orders", b"w", partition=0).result(10)


@pytest.mark.parametrize("timeout", [float("nan"), -1, -0.5])
def test_a_timeout_that_is_none_ends_nothing(cluster: EmbeddedCluster, timeout: float) -> None:
    """Rejected before anything is given up: the records continue."""
    with _producer(cluster, linger_ms=5_000) as producer:
        future = producer.send("orders", b"v", partition=0)
        with pytest.raises(ValueError, match="timeout must be None or at least 0"):
            producer.close(timeout)
        with pytest.raises(ValueError, match="timeout must be None or at least 0"):
            producer.flush(timeout)
        assert producer.flush(float("inf")) == 0
        assert future.result(0).offset == 0


def test_a_waiter_is_woken_while_callbacks_still_run(cluster: EmbeddedCluster) -> None:
    """A callback may wait for the thread that waits for its record."""
    got = threading.Event()
    with _producer(cluster, linger_ms=0) as producer:
        future = producer.send(
            "orders", b"v", partition=0, on_delivery=lambda *_: got.wait(30) or None
        )
        assert future.result(20).offset == 0
        got.set()
