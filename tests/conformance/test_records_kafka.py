"""Records that kprod wrote to Apache Kafka are read by other programs.

One topic for each codec, two partitions, several batches in each; written once for all tests.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from kprod import Producer
from kprod.clock import SystemClock
from kprod.model import Codec, RecordMetadata
from tests.cli import running
from tests.plugins.kafka_nodes import KafkaNodes

LIMIT_S = 60.0
PARTITIONS = (0, 1)
COUNT = 60
"""Records of each partition."""

BATCHES_MIN = 3
BATCH_BYTES = 1_500
PAD = b"some text that a codec can make smaller; "

Headers = list[tuple[str, bytes | None]]
HEADERS: list[Headers] = [
    [],
    [("h", b"x")],
    [("null", None), ("empty", b"")],
    [("again", b"1"), ("again", b"2"), ("again", None)],
    [("ключ", "значение".encode()), ("", b"\x00\xff")],
]


class Sent(NamedTuple):
    """A record as an application has it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


@pytest.fixture(scope="module")
def written(kafka: KafkaNodes) -> dict[tuple[str, int], list[Sent]]:
    """Write everything, and hold each acknowledgement to its record's place.

    Returns:
        The records sent, by topic and partition.
    """
    sent: dict[tuple[str, int], list[Sent]] = {}
    now_ms = SystemClock().timestamp_ms()
    for codec in Codec:
        topic = kafka.create_topic(f"records-{codec.name.lower()}", partitions=len(PARTITIONS))
        settings = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "compression.type": codec.name.lower(),
            "batch.size": BATCH_BYTES,
            "linger.ms": 1_000,
        }
        with Producer(settings) as producer:
            for partition in PARTITIONS:
                rows = _rows(now_ms, partition)
                _send_all(producer, topic, partition, rows)
                sent[topic, partition] = rows
    return sent


def _send_all(producer: Producer, topic: str, partition: int, rows: Sequence[Sent]) -> None:
    futures = [
        producer.send(
            topic,
            row.value,
            key=row.key,
            headers=row.headers,
            partition=partition,
            timestamp_ms=row.timestamp_ms,
        )
        for row in rows
    ]
    assert producer.flush(LIMIT_S) == 0
    assert [future.result(0) for future in futures] == [
        RecordMetadata(topic, partition, offset, row.timestamp_ms, _size(row.key), _size(row.value))
        for offset, row in enumerate(rows)
    ]


def _rows(now_ms: int, partition: int) -> list[Sent]:
    """Every shape of key, value, headers and time, in changing company."""
    keys = (None, b"", b"key", "ключ".encode())
    # The last is larger than a batch is meant to be.
    values = (b"value", None, b"", PAD * 9, "печать".encode(), PAD, b"long " * 2_000)
    steps_ms = (0, 5, -70_000, 3_600_000 - 120_000, 1)
    return [
        Sent(
            keys[number % 4],
            values[number % 7],
            HEADERS[(number + number // 5 + partition) % 5],
            now_ms + steps_ms[(number + number // 7) % 5],
        )
        for number in range(COUNT)
    ]


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def test_another_client_reads_them_equal(
    kafka: KafkaNodes, written: dict[tuple[str, int], list[Sent]]
) -> None:
    """confluent-kafka's consumer, by assignment, gets every field of every record in order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in written])
    received: dict[tuple[str | None, int | None], list[Sent]] = {place: [] for place in written}
    offsets: dict[tuple[str | None, int | None], list[int | None]] = {
        place: [] for place in written
    }
    for _ in range(COUNT * len(written)):
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None
        kind, timestamp_ms = message.timestamp()
        assert kind == confluent_kafka.TIMESTAMP_CREATE_TIME
        place = message.topic(), message.partition()
        headers: list[Any] = list(message.headers() or [])
        received[place].append(Sent(message.key(), message.value(), headers, timestamp_ms))
        offsets[place].append(message.offset())
    consumer.close()
    assert received == written
    assert all(numbers == list(range(COUNT)) for numbers in offsets.values())


def test_kafkas_tool_finds_every_batch_valid_and_kprod_dump_agrees(
    kafka: KafkaNodes, written: dict[tuple[str, int], list[Sent]]
) -> None:
    """DumpLogSegments reads each record, and `kprod dump` prints the same of the same files."""
    files = {place: _only(kafka.log_files(*place)) for place in written}
    theirs = _sections(kafka.tools.dump_log_segments(list(files.values())))
    result = running.run("dump", "--deep", "--verify", *map(str, files.values()))
    assert result.exit_code == 0
    ours = _sections(result.stdout)

    assert sorted(theirs) == sorted(map(str, files.values()))
    for (topic, _), path in files.items():
        batches = [line for line in theirs[str(path)] if line.startswith("baseOffset")]
        assert len(batches) >= BATCHES_MIN
        assert all("isvalid: true" in line for line in batches)
        assert all(f"compresscodec: {topic.removeprefix('records-')} " in it for it in batches)
        assert sum(line.startswith("| offset") for line in theirs[str(path)]) == COUNT
        assert ours[str(path)] == theirs[str(path)]


def _only(paths: Sequence[Path]) -> Path:
    (path,) = paths
    return path


def _sections(dumped: str) -> dict[str, list[str]]:
    """Lines by file; each file's begin with its name."""
    sections: dict[str, list[str]] = {}
    for section in re.split(r"^Dumping ", dumped, flags=re.MULTILINE)[1:]:
        name, *lines = section.splitlines()
        sections[name] = lines
    return sections
