"""Clients of Kafka 0.9 and 0.10: message sets in, message sets out."""

import contextlib
from collections.abc import Iterator

import kafka
import pytest

from kprod.broker import EmbeddedCluster
from kprod.model import Codec
from kprod.record.reader import read_batches

COUNT = 50
VALUES = [b"value-%d" % index * 10 for index in range(COUNT)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One cluster for all clients."""
    with EmbeddedCluster(brokers=1) as running:
        yield running


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", [(0, 9), (0, 10), (0, 10, 1), (0, 11)])
def test_kafka_python_of_an_old_api_writes_and_reads(
    cluster: EmbeddedCluster, version: tuple[int, ...], codec: str | None
) -> None:
    """What is written in the old format is kept in the new one and read back in the old."""
    topic = f"old-{'.'.join(map(str, version))}-{codec}"
    cluster.create_topic(topic, 1)
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        api_version=version,
        compression_type=codec,
        enable_idempotence=False,
        acks="all",
    )
    with contextlib.closing(producer):
        sent = [producer.send(topic, value, key=b"k", partition=0) for value in VALUES]
        offsets = [future.get(timeout=20).offset for future in sent]
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, api_version=version, group_id=None
    )
    partition = kafka.TopicPartition(topic, 0)
    received: list[bytes] = []
    with contextlib.closing(consumer):
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        while len(received) < COUNT:
            polled = consumer.poll(timeout_ms=20_000)
            assert polled
            received += [record.value for record in polled[partition]]

    assert offsets == list(range(COUNT))
    assert received == VALUES
    assert [record.value for record in cluster.records(topic)[0]] == VALUES
    stored = [batch for piece in cluster.batches(topic)[0] for batch in read_batches(piece)]
    assert {Codec(it.codec) for it in stored} == {Codec[(codec or "none").upper()]}
