"""A topic's records, read by another client: sums to compare with Spark's, and repeated records."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka

READ_TIMEOUT_S = 30.0
READ_COUNT = 10_000
READ_ROUND_S = 0.5
NUMBER_CHARACTERS = 10


@dataclass(slots=True, kw_only=True)
class TopicSums:
    """A topic's records, added up as `tests.spark.scenes.SUMS` does with rows.

    Attributes:
        sums: Counts and checksums over the first record of each number.
        duplicates: How many records are repetitions.
        wrong_partitions: Records that are not where their row wanted them.
    """

    sums: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    wrong_partitions: int = 0


def read_topic(servers: str, topic: str) -> Iterator[Any]:
    """Read every record that is there now.

    Args:
        servers: The cluster.
        topic: Its name.

    Yields:
        confluent-kafka's messages.
    """
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "kprod-tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, READ_TIMEOUT_S).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in partitions])
        yield from _to_the_ends(consumer, set(partitions))
    finally:
        consumer.close()


def _to_the_ends(consumer: confluent_kafka.Consumer, unfinished: set[int]) -> Iterator[Any]:
    idle_rounds = 0
    while unfinished:
        messages = consumer.consume(READ_COUNT, READ_ROUND_S)
        idle_rounds = 0 if messages else idle_rounds + 1
        assert idle_rounds * READ_ROUND_S < READ_TIMEOUT_S, f"nothing more of {unfinished}"
        for message in messages:
            error = message.error()
            if error is None:
                yield message
                continue
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            unfinished.discard(message.partition())


def sum_up(servers: str, topic: str) -> TopicSums:
    """Add up a topic of numbered rows.

    Args:
        servers: The cluster.
        topic: Its name.

    Returns:
        The sums, each number counted once.
    """
    found = TopicSums()
    sums = dict.fromkeys(
        ("records", "values", "value_crc", "key_crc", "header_crc", "timestamps"), 0
    )
    seen: set[int] = set()
    for message in read_topic(servers, topic):
        key, value, headers = message.key(), message.value(), message.headers()
        number = int(
            (key or b"").removeprefix(b"tombstone-") if value is None else value[:NUMBER_CHARACTERS]
        )
        if number in seen:
            found.duplicates += 1
            continue
        seen.add(number)
        sums["records"] += 1
        if value is not None:
            sums["values"] += 1
            sums["value_crc"] += zlib.crc32(value)
        if key is not None:
            sums["key_crc"] += zlib.crc32(key)
        if headers:
            assert [name for name, _ in headers] == ["number"]
            sums["header_crc"] += zlib.crc32(headers[0][1])
        if number % 5 == 0:
            sums["timestamps"] += message.timestamp()[1]
        if number % 4 == 0 and message.partition() != number % 3:
            found.wrong_partitions += 1
    found.sums = sums
    return found
