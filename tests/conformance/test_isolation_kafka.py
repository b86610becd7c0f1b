"""Committed records only: the embedded broker and Apache Kafka, with the same log, answer alike.

A transactional producer writes its histories to Kafka; the batches and markers that Kafka then has
are put into the embedded broker's log as they are.
"""

from typing import Any

import pytest
from confluent_kafka import Producer

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.partition_transactions import append_marker
from kprod.clock import SystemClock
from kprod.protocol.error_table import ErrorCode
from kprod.record.control import decode_marker
from kprod.record.reader import read_batches
from tests.conformance.sides import Side, Sides, plain
from tests.conformance.wire import Target

VALUE_BYTES = 100
WHOLE_BYTES = 1 << 20
TIMES = (-1, -2, -3)


def write_transactions(address: str, topic: str) -> None:
    """Two producers' transactions, interleaved, some aborted, the last one left open."""
    producers = [
        Producer({"bootstrap.servers": address, "transactional.id": f"{topic}-{name}"})
        for name in "ab"
    ]
    for producer in producers:
        producer.init_transactions(30)
    for number, (first_commits, second_commits) in enumerate(
        [(True, False), (False, True), (False, False), (True, True)]
    ):
        for producer in producers:
            producer.begin_transaction()
            producer.produce(topic, b"v" * VALUE_BYTES, b"k%d" % number, partition=0)
            producer.flush(30)
        producers[number % 2].produce(topic, b"w", b"x", partition=0)
        producers[number % 2].flush(30)
        for producer, commits in zip(producers, (first_commits, second_commits), strict=True):
            end = producer.commit_transaction if commits else producer.abort_transaction
            end(30)
    producers[0].begin_transaction()
    producers[0].produce(topic, b"open", b"o", partition=0)
    producers[0].flush(30)


def replay(cluster: EmbeddedCluster, topic: str, log: bytes) -> None:
    """Append Kafka's batches and markers at the log's face."""
    partition = cluster._kprod.engine.partition(topic, 0)
    for batch in read_batches(log):
        if batch.is_control:
            marker = decode_marker(next(iter(batch)))
            assert marker is not None
            append_marker(
                partition,
                marker,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                timestamp_ms=batch.max_timestamp_ms,
            )
        else:
            encoded = memoryview(bytearray(batch.view))
            partition.append(
                next(read_batches(encoded)), encoded, SystemClock().timestamp_ms(), acks=1
            )


@pytest.mark.parametrize("max_bytes", [1, 300, WHOLE_BYTES])
def test_reading_with_either_isolation_level(sides: Sides, max_bytes: int) -> None:
    """From every offset: records, last stable offset and aborted transactions; and offsets."""
    original = sides.kafka.create("isolation")
    write_transactions(sides.kafka.address, original.topic)
    config = EmbeddedConfig(auto_create_topics=False)
    with EmbeddedCluster(1, {original.topic: 1}, config=config) as cluster:
        embedded = Side("embedded", cluster.bootstrap_servers)
        log = sides.kafka.log(original)
        cluster.call(lambda: replay(cluster, original.topic, log))
        end = sides.kafka.offset(original, -1)["offset"]

        def case(side: Side) -> Any:
            reads = [
                part(side, original, offset, isolation_level=level, partition_max_bytes=max_bytes)
                for offset in range(end + 2)
                for level in (0, 1)
            ]
            offsets = [
                plain(side.offset(original, time, version=7, isolation_level=level))
                for time in TIMES
                for level in (0, 1)
            ]
            return reads, offsets

        embedded_told, kafka_told = case(embedded), case(sides.kafka)
    reads, offsets = kafka_told
    if max_bytes < WHOLE_BYTES:
        # Kafka's sparse index cannot tell what lies behind the bytes that were read.
        for ours, theirs in zip(embedded_told[0], reads, strict=True):
            own, others = ours.pop("aborted_transactions"), theirs["aborted_transactions"]
            assert (own is None) == (others is None)
            assert own is None or all(it in others for it in own)
        reads = [{k: v for k, v in it.items() if k != "aborted_transactions"} for it in reads]
    else:
        assert any(it["aborted_transactions"] for it in reads)
    assert embedded_told == (reads, offsets)
    assert offsets[0]["offset"] > offsets[1]["offset"]


def part(side: Side, target: Target, offset: int, **fields: int) -> Any:
    """Fetch one partition; what a response beyond the end has is an error and nothing else."""
    (topic,) = side.fetch(target, offset, **fields)["responses"]
    (answer,) = plain(topic["partitions"])
    assert answer["error_code"] in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}
    return answer
