"""Columns are what records are, with the same positions."""

import random
import sys
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from kprod import Consumer, Producer, TopicPartition
from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer_face import engine_of
from kprod.errors import ClosedError, CorruptRecord, WakeupError
from tests.consumer.reading import LIMIT_S, consumer_of, fill, poll_count, scripted_consumer
from tests.network.scripted_logs import Log, LogCluster

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with a topic of two partitions."""
    with EmbeddedCluster(brokers=1, topics={"t": 2}) as made:
        yield made


def rows(consumer: Consumer, count: int, **arguments: Any) -> list[dict[str, Any]]:
    """Return that number of rows."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        batch = consumer.poll_arrow(LIMIT_S, **arguments)
        assert batch.num_rows, f"only {len(found)} rows in {LIMIT_S} s"
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def test_columns_equal_records(cluster: EmbeddedCluster) -> None:
    """Nulls, empty ones and headers too."""
    rng = random.Random(3)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=300) as producer:
        for number in range(500):
            producer.send(
                "t",
                [None, b"", rng.randbytes(20)][number % 3],
                key=[None, b"", b"k"][number % 4 % 3],
                headers=[("h", [None, b"x"][number % 2])] * (number % 3),
                partition=number % 2,
            )
    with consumer_of(cluster) as consumer:
        consumer.assign([T0, T1])
        records = poll_count(consumer, 500)
        consumer.seek_to_beginning()
        found = rows(consumer, 500, leader_epoch=True)
    expected = {
        (it.partition, it.offset): (
            it.key,
            it.value,
            it.timestamp_ms,
            it.leader_epoch,
            [{"key": header.key, "value": header.value} for header in it.headers],
        )
        for it in records
    }
    assert len(expected) == 500
    assert {
        (it["partition"], it["offset"]): (
            it["key"],
            it["value"],
            round(it["timestamp"].timestamp() * 1_000),
            it["leader_epoch"],
            it["headers"],
        )
        for it in found
    } == expected
    for partition in (0, 1):
        offsets = [it["offset"] for it in found if it["partition"] == partition]
        assert offsets == sorted(offsets)


def test_rows_records_and_the_loop_take_turns(cluster: EmbeddedCluster) -> None:
    """Each record once, whichever way asks for the next one."""
    fill(cluster, "t", 300, batch_size=500)
    seen: list[int] = []

    def iterate() -> None:
        for record in consumer:
            seen.append(record.offset)
            if record.offset % 3 == 0:
                return

    with consumer_of(cluster, consumer_timeout_ms=1_000) as consumer:
        consumer.assign([T0])
        while len(seen) < 280:
            batch = consumer.poll_arrow(LIMIT_S, 7)
            assert batch.num_rows <= 7
            seen += batch.column("offset").to_pylist()
            seen += [record.offset for record in consumer.poll(LIMIT_S, 5)]
            iterate()
            assert consumer.position(T0) == len(seen)
    assert seen == list(range(len(seen)))


def test_without_records_the_batch_is_empty(cluster: EmbeddedCluster) -> None:
    """With the same columns."""
    with consumer_of(cluster, "t") as consumer:
        empty = consumer.poll_arrow(0.1)
        fill(cluster, "t", 1)
        full = consumer.poll_arrow(LIMIT_S)
    assert empty.num_rows == 0
    assert full.num_rows == 1
    assert empty.schema == full.schema


def test_bytes_end_a_batch(cluster: EmbeddedCluster) -> None:
    """No row is begun behind the limit."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(100):
            producer.send("t", b"x" * 1_000, partition=0)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        sizes: list[int] = []
        while sum(sizes) < 100:
            batch = consumer.poll_arrow(LIMIT_S, max_bytes=10_000)
            sizes.append(batch.num_rows)
    assert max(sizes) <= 11


def test_a_batch_that_did_not_arrive_comes_again(cluster: EmbeddedCluster) -> None:
    """An exception in the call loses no records."""
    fill(cluster, "t", 20)
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        consumer.poll(LIMIT_S, 5)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll_arrow(LIMIT_S)
        assert consumer.poll_arrow(LIMIT_S).column("offset").to_pylist() == list(range(5, 20))


def test_corrupt_records_come_behind_those_before() -> None:
    """With topic, partition and offset."""
    log = Log()
    for value in (b"a", b"b"):
        log.append(value)
    first, last, batch = log.entries[1]
    log.entries[1] = (first, last, batch[:-1] + b"\xff")
    with scripted_consumer(LogCluster(log), "orders") as consumer:
        assert consumer.poll_arrow(5).column("value").to_pylist() == [b"a"]
        with pytest.raises(CorruptRecord) as raised:
            consumer.poll_arrow(5)
        assert raised.value.offset == 1


@pytest.mark.parametrize("wrong", [{"max_rows": 0}, {"max_bytes": 2**31}, {"max_rows": 1.5}])
def test_wrong_limits_are_rejected(cluster: EmbeddedCluster, wrong: dict[str, Any]) -> None:
    """Before anything is taken."""
    with consumer_of(cluster, "t") as consumer, pytest.raises((TypeError, ValueError)):
        consumer.poll_arrow(1, **wrong)


def test_polars_and_duckdb_take_a_batch(cluster: EmbeddedCluster) -> None:
    """As a table and as a frame."""
    fill(cluster, "t", 50)
    with consumer_of(cluster, "t") as consumer:
        batch = consumer.poll_arrow(LIMIT_S)
    assert isinstance(batch, pa.RecordBatch)
    assert pl.DataFrame(batch)["offset"].sum() == sum(range(50))
    relation = duckdb.from_arrow(pa.table(batch))
    assert relation.aggregate('sum("offset")').fetchall() == [(sum(range(50)),)]


def test_the_size_of_a_batch_that_was_left_is_not_counted() -> None:
    """A decompressed batch is no memory in use once its partition was given up."""
    with EmbeddedCluster(brokers=1, topics={"large": 1, "t": 1}) as cluster:
        settings: dict[str, Any] = {
            "compression_type": "gzip",
            "linger_ms": 200,
            "batch_size": 1_000_000,
        }
        fill(cluster, "large", 5_000, **settings)
        fill(cluster, "t", 3)
        with consumer_of(cluster) as consumer:
            buffer = engine_of(consumer).parts.buffer
            consumer.assign([("large", 0)])
            assert len(consumer.poll(LIMIT_S, 1)) == 1
            assert buffer.decoding_bytes > 1_000
            consumer.assign([("t", 0)])
            assert consumer.poll_arrow(LIMIT_S).num_rows == 3
            assert buffer.decoding_bytes < 1_000


def test_a_closed_consumer_says_so_before_pyarrow_is_imported(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in a forked child does, where the lock of an import may be held for ever."""
    with consumer_of(cluster) as consumer:
        pass
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ClosedError):
        consumer.poll_arrow(0)
