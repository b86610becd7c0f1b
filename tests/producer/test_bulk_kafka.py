"""Columns sent to Apache Kafka, read back by confluent-kafka's consumer: equal, row by row.

Each row's timestamp says which row it is, or its value where the timestamp is null.
"""

import subprocess
import sys
from typing import Any

import confluent_kafka
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kprod import Producer
from kprod._core.send.murmur2 import murmur2
from tests.plugins.kafka_nodes import KafkaNodes

BASE_MS = 1_600_000_000_000
PARTITIONS = 4
LIMIT_S = 60.0
EMPTY_POLLS_MAX = 20
MEBIBYTE = 1 << 20
ENDLESS = """
import resource, sys
from kprod import Producer
address, topic, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
buffer_memory = 32 << 20
with Producer(bootstrap_servers=address, buffer_memory=buffer_memory) as producer:
    producer.send_many(topic, [b"warm"] * 1000).result(60)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    receipt = producer.send_many(
        topic,
        (b"value %060d" % row for row in range(rows)),
        keys=(b"key %d" % (row % 5000) for row in range(rows)),
    )
    taken = receipt.result(120)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
print(sum(part.count for part in taken.values()), grown_kib * 1024 - buffer_memory)
"""


def expected(row: int) -> tuple[bytes | None, bytes | None, list[Any] | None, int | None]:
    """Key, value, headers and partition of a row; a partition of None is the key's or any."""
    has_time = row % 13 != 0
    value = None if row % 11 == 0 and has_time else b"value %d" % row
    key = None if row % 3 == 0 else b"key %d" % (row % 1000)
    headers = [("row", b"%d" % row), ("null", None)] if row % 4 == 1 else None
    partition = row % PARTITIONS if row % 5 > 1 else None
    if partition is None and key is not None:
        partition = (murmur2(key) & 0x7FFFFFFF) % PARTITIONS
    return key, value, headers, partition


def arrow_table(rows: int) -> pa.Table:
    """The rows as a table, in chunks."""
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    chunks = []
    for first in range(0, rows, 100_000):
        numbers = range(first, min(first + 100_000, rows))
        wanted = [expected(row) for row in numbers]
        partitions = [row % PARTITIONS if row % 5 > 1 else None for row in numbers]
        times = [BASE_MS + row if row % 13 else None for row in numbers]
        arrays = {
            "value": pa.array([value for _, value, _, _ in wanted], pa.binary()),
            "key": pa.array([key for key, _, _, _ in wanted], pa.binary()),
            "headers": pa.array([headers for _, _, headers, _ in wanted], header),
            "partition": pa.array(partitions, pa.int32()),
            "time": pa.array(times, pa.timestamp("ms")),
        }
        chunks.append(pa.table(arrays))
    return pa.concat_tables(chunks)


def table_of(library: str, rows: int) -> Any:
    """The rows as a table of some library, with that library's own layouts."""
    table = arrow_table(rows)
    if library == "pyarrow":
        encoded = pc.dictionary_encode(table["key"])
        return table.set_column(1, "key", encoded)
    if library == "polars":
        return pl.DataFrame(table)  # views
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection.sql("select value, key::varchar as key, headers, partition, time from rows")


def read_back(address: str, topic: str, rows: int) -> int:
    """Read all rows and compare each; returns how many."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": topic,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    places = [confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)]
    consumer.assign(places)
    seen = bytearray(rows)
    newest = [-1] * PARTITIONS
    polls = 0
    try:
        while sum(seen) < rows and polls < EMPTY_POLLS_MAX:
            messages = consumer.consume(20_000, 1.0)
            polls = 0 if messages else polls + 1
            for message in messages:
                _compare(message, seen, newest)
    finally:
        consumer.close()
    return sum(seen)


def _compare(message: confluent_kafka.Message, seen: bytearray, newest: list[int]) -> None:
    assert message.error() is None
    value, stamp_ms = message.value(), message.timestamp()[1]
    is_timed = stamp_ms < BASE_MS + len(seen)
    row = stamp_ms - BASE_MS if is_timed else int(bytes(value or b"").split()[1])
    assert is_timed == (row % 13 != 0)
    wanted_key, wanted_value, wanted_headers, wanted_partition = expected(row)
    assert (message.key(), value, message.headers()) == (wanted_key, wanted_value, wanted_headers)
    partition = message.partition()
    assert partition is not None
    assert wanted_partition in {None, partition}
    assert seen[row] == 0
    seen[row] = 1
    # In each partition rows lie in their order.
    assert row > newest[partition]
    newest[partition] = row


@pytest.mark.timeout(900)
@pytest.mark.parametrize("library", ["pyarrow", "polars", "duckdb"])
@pytest.mark.parametrize(
    "rows", [20_000, pytest.param(2_000_000, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_columns_are_read_back_equal(kafka: KafkaNodes, library: str, rows: int) -> None:
    """Nulls, headers, partitions and timestamps of all mixtures."""
    topic = kafka.create_topic(f"bulk-{library}-{rows}", partitions=PARTITIONS)
    table = table_of(library, rows)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        receipt = producer.send_arrow(
            topic, table, key="key", headers="headers", partition="partition", timestamp="time"
        )
        taken = receipt.result(LIMIT_S)
    assert sum(part.count for part in taken.values()) == rows
    for part in taken.values():
        assert [(r.first, r.last) for r in part.ranges] == [(0, part.count - 1)]
    assert read_back(kafka.bootstrap_servers, topic, rows) == rows


@pytest.mark.timeout(300)
def test_a_generator_of_values_is_read_back(kafka: KafkaNodes) -> None:
    """Through `send_many`, with keys."""
    rows = 20_000
    topic = kafka.create_topic("bulk-many", partitions=PARTITIONS)
    wanted = [expected(row) for row in range(rows)]
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        receipt = producer.send_many(
            topic,
            (value for _, value, _, _ in wanted),
            keys=(key for key, _, _, _ in wanted),
            headers=(headers for _, _, headers, _ in wanted),
            partitions=(row % PARTITIONS if row % 5 > 1 else None for row in range(rows)),
            timestamps_ms=(BASE_MS + row if row % 13 else None for row in range(rows)),
        )
        assert sum(part.count for part in receipt.result(LIMIT_S).values()) == rows
    assert read_back(kafka.bootstrap_servers, topic, rows) == rows


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "rows", [100_000, pytest.param(10_000_000, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_a_long_generator_costs_no_memory(kafka: KafkaNodes, rows: int) -> None:
    """Its receipt included, no more than the buffer and 64 MiB, though keys scatter the records."""
    topic = kafka.create_topic(f"bulk-endless-{rows}", partitions=PARTITIONS)
    command = [sys.executable, "-c", ENDLESS, kafka.bootstrap_servers, topic, str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=800)
    count, beyond_buffer_bytes = map(int, done.stdout.split())
    assert count == rows
    assert beyond_buffer_bytes < 64 * MEBIBYTE
