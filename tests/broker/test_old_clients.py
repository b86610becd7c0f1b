"""Clients of Kafka 0.9 and 0.10: message sets in, message sets out."""

import contextlib
from collections.abc import Callable, Iterator

import kafka
import pytest

from kprod.broker import EmbeddedCluster
from kprod.model import Codec
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.headers import decode_request_header
from kprod.record.entries import read_entries
from kprod.record.reader import read_batches

COUNT = 50
VALUES = [b"value-%d" % index * 10 for index in range(COUNT)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One cluster for all clients."""
    with EmbeddedCluster(brokers=1) as running:
        yield running


def _keep_in(asked: list[bytes]) -> Callable[[bytes], bytes]:
    """Make a fault that changes nothing, but keeps the request."""

    def keep(frame: bytes) -> bytes:
        asked.append(frame)
        return frame

    return keep


def _sent_in(frame: bytes) -> tuple[int, set[tuple[int, int]]]:
    """Return a Produce request's version, and formats and codecs of what it carries."""
    header, offset = decode_request_header(frame)
    body = request_codec(ApiKey.PRODUCE, header.api_version).decode(frame[offset:])
    (topic,) = body["topic_data"]
    (partition,) = topic["partition_data"]
    entries = read_entries(partition["records"])
    return header.api_version, {(entry.magic, entry.codec) for entry in entries}


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4"])
@pytest.mark.parametrize(
    ("version", "produce_version", "magic"),
    [((0, 9), 1, 0), ((0, 10), 2, 1), ((0, 10, 1), 2, 1), ((0, 11), 3, 2)],
)
def test_kafka_python_of_an_old_api_writes_and_reads(
    cluster: EmbeddedCluster,
    version: tuple[int, ...],
    produce_version: int,
    magic: int,
    codec: str | None,
) -> None:
    """Messages of the old format are kept in the new one and read back in the old."""
    topic = f"old-{'.'.join(map(str, version))}-{codec}"
    cluster.create_topic(topic, 1)
    asked: list[bytes] = []
    cluster.faults.rewrite_request(ApiKey.PRODUCE, _keep_in(asked))
    cluster.faults.rewrite_request(ApiKey.FETCH, _keep_in(asked))
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

    produce, fetch = asked
    assert _sent_in(produce) == (produce_version, {(magic, Codec[(codec or "none").upper()])})
    assert decode_request_header(fetch)[0].api_version <= (3 if magic < 2 else 6)
    assert offsets == list(range(COUNT))
    assert received == VALUES
    assert [record.value for record in cluster.records(topic)[0]] == VALUES
    stored = [batch for piece in cluster.batches(topic)[0] for batch in read_batches(piece)]
    assert {Codec(it.codec) for it in stored} == {Codec[(codec or "none").upper()]}
