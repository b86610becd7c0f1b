"""Clients that nobody here wrote, against the embedded broker."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaProducer

from kprod.broker import EmbeddedCluster
from kprod.model import Codec, Header
from kprod.record.reader import read_batches
from tests.broker.polling import polled

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COUNT = 200
HEADERS: list[tuple[str, str | bytes | None]] = [("trace", b"1"), ("empty", b"")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One cluster for all clients."""
    with EmbeddedCluster(brokers=3) as running:
        yield running


def expected() -> list[tuple[bytes, bytes]]:
    """Keys and values that every client sends."""
    return [(f"key-{index}".encode(), f"value-{index}".encode() * 8) for index in range(COUNT)]


def produce_confluent(servers: str, topic: str, codec: str, *, idempotent: bool) -> None:
    """Send with librdkafka."""
    failed: list[Any] = []
    settings = {
        "bootstrap.servers": servers,
        "compression.type": codec,
        "enable.idempotence": idempotent,
        "linger.ms": 5,
    }
    producer = confluent_kafka.Producer(settings)
    for key, value in expected():
        producer.produce(
            topic,
            key=key,
            value=value,
            partition=0,
            headers=HEADERS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert failed == []


def produce_kafka_python(servers: str, topic: str, codec: str, *, idempotent: bool) -> None:
    """Send with kafka-python."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers.split(","),
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=5,
    )
    with contextlib.closing(producer):
        sent = [
            producer.send(topic, key=key, value=value, partition=0, headers=HEADERS)
            for key, value in expected()
        ]
        offsets = [future.get(timeout=20).offset for future in sent]
    assert offsets == list(range(COUNT))


def produce_aiokafka(servers: str, topic: str, codec: str, *, idempotent: bool) -> None:
    """Send with aiokafka."""

    async def produce() -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(topic, key=key, value=value, partition=0, headers=HEADERS)
                for key, value in expected()
            ]
            return [(await future).offset for future in sent]
        finally:
            await producer.stop()

    assert asyncio.run(produce()) == list(range(COUNT))


PRODUCERS: dict[str, Callable[..., None]] = {
    "confluent": produce_confluent,
    "kafka-python": produce_kafka_python,
    "aiokafka": produce_aiokafka,
}


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", PRODUCERS)
def test_produced_records_are_stored_as_sent(
    cluster: EmbeddedCluster, client: str, codec: str, idempotent: bool
) -> None:
    """Keys, values, headers and the codec's bytes of each client are in the log, in order."""
    topic = f"{client}-{codec}-{idempotent}"
    cluster.create_topic(topic, 1)

    PRODUCERS[client](cluster.bootstrap_servers, topic, codec, idempotent=idempotent)

    records = cluster.records(topic)[0]
    assert [(record.key, record.value) for record in records] == expected()
    assert all(record.headers == tuple(starmap(Header, HEADERS)) for record in records)
    batches = [batch for piece in cluster.batches(topic)[0] for batch in read_batches(piece)]
    # A client sends a batch uncompressed when compressing does not make it smaller.
    assert {Codec(batch.codec) for batch in batches} <= {Codec[codec.upper()], Codec.NONE}
    assert Codec(max(batches, key=lambda batch: batch.record_count).codec).name == codec.upper()
    assert {batch.producer_id >= 0 for batch in batches} == {idempotent}


def test_confluent_consumer_reads_by_assignment(cluster: EmbeddedCluster) -> None:
    """One client reads the records that another wrote, from the beginning, across three leaders."""
    cluster.create_topic("assigned", 3)
    for partition in range(3):
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for key, value in expected():
            producer.produce("assigned", key=key, value=value, partition=partition)
        assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign(
        [
            confluent_kafka.TopicPartition("assigned", index, confluent_kafka.OFFSET_BEGINNING)
            for index in range(3)
        ]
    )
    received: dict[int | None, list[tuple[Any, Any]]] = {0: [], 1: [], 2: []}
    for _ in range(3 * COUNT):
        message = polled(consumer, 20)
        received[message.partition()].append((message.key(), message.value()))
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition("assigned", 1)) == (
        0,
        COUNT,
    )
    consumer.close()

    assert received == {0: expected(), 1: expected(), 2: expected()}


def test_clients_find_an_automatically_created_topic(cluster: EmbeddedCluster) -> None:
    """A topic that nobody made is there when a producer asks for it."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("made-on-demand", b"value")

    assert producer.flush(20) == 0
    assert [record.value for record in cluster.records("made-on-demand")[0]] == [b"value"]
