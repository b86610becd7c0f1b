"""The consumer against both brokers: what peers wrote, and what peers read of the same log."""

import os
import random
from typing import Any, Literal

import confluent_kafka
import pytest

from kprod import Codec, Consumer, Producer, TopicPartition
from tests.conformance.sides import Side, Sides
from tests.consumer.reading import LIMIT_S, poll_count, poll_until

COUNT = 2_000
CODECS = tuple(Codec)


def odd_records(rng: random.Random) -> list[dict[str, Any]]:
    """Nulls, empty ones, long ones, repeated header keys."""
    made: list[dict[str, Any]] = []
    for number in range(COUNT):
        kind = number % 8
        value = [b"", None, b"x" * rng.randrange(5_000), os.urandom(20)][kind % 4]
        key = [None, b"", b"%d" % number, b"k"][kind % 4 if kind < 4 else 3 - kind % 4]
        headers = [(f"h{index % 2}", [b"", None, b"v"][index % 3]) for index in range(number % 5)]
        made.append({"value": value, "key": key, "headers": headers})
    return made


def read_by_peer(address: str, topic: str, count: int, **settings: Any) -> list[tuple[Any, ...]]:
    """Return the records that confluent-kafka reads."""
    peer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"peer-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    peer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[tuple[Any, ...]] = []
    try:
        while len(found) < count:
            messages = peer.consume(min(1_000, count - len(found)), LIMIT_S)
            assert messages, f"confluent-kafka read only {len(found)} of {count}"
            found += [
                (it.offset(), it.timestamp()[1], it.key(), it.value(), it.headers() or [])
                for it in messages
            ]
    finally:
        peer.close()
    return found


def shown(record: Any) -> tuple[Any, ...]:
    """A record as the peer's are shown."""
    headers = [(header.key, header.value) for header in record.headers]
    return record.offset, record.timestamp_ms, record.key, record.value, headers


def test_odd_records_of_every_codec(side: Side) -> None:
    """Field by field what confluent-kafka reads."""
    topic = side.create("odd").topic
    records = odd_records(random.Random(7))
    for codec in CODECS:
        with Producer(
            bootstrap_servers=side.address, compression_type=codec, batch_size=20_000
        ) as producer:
            for record in records:
                producer.send(topic, partition=0, **record)
            assert producer.flush(LIMIT_S) == 0
    total = COUNT * len(CODECS)
    with Consumer(bootstrap_servers=side.address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = [shown(record) for record in poll_count(consumer, total)]
    assert found == read_by_peer(side.address, topic, total)
    assert [row[2:] for row in found[:COUNT]] == [
        (it["key"], it["value"], it["headers"]) for it in records
    ]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_of_a_peer(
    sides: Sides, isolation: Literal["read_committed", "read_uncommitted"]
) -> None:
    """Aborted records are skipped, also at the log's end; open transactions delay the reader."""
    side = sides.kafka
    topic = side.create("transactions").topic
    peer = confluent_kafka.Producer(
        {"bootstrap.servers": side.address, "transactional.id": f"txn-{topic}"}
    )
    peer.init_transactions(30)
    committed: list[bytes] = []
    for number in range(30):
        peer.begin_transaction()
        values = [b"%d-%d" % (number, index) for index in range(number % 4 + 1)]
        for value in values:
            peer.produce(topic, value, partition=0)
        peer.flush(30)
        if number % 3:
            peer.abort_transaction(30)
        else:
            peer.commit_transaction(30)
            committed += values
    peer.begin_transaction()
    peer.produce(topic, b"open", partition=0)
    peer.flush(30)
    with Consumer(
        bootstrap_servers=side.address, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        key = TopicPartition(topic, 0)
        consumer.assign([key])
        end = consumer.end_offsets([key])[key]
        records = poll_until(consumer, lambda _: consumer.position(key) >= end)
        values = [record.value for record in records]
        assert consumer.position(key) == end
        assert consumer.lag(key) == 0
        if isolation == "read_committed":
            assert values == committed
            peer.abort_transaction(30)
            after = confluent_kafka.Producer({"bootstrap.servers": side.address})
            after.produce(topic, b"after", partition=0)
            after.flush(30)
            assert [record.value for record in poll_count(consumer, 1)] == [b"after"]
        else:
            assert b"open" in values
            assert len(values) > len(committed)
            peer.abort_transaction(30)
