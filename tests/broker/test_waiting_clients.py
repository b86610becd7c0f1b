"""Delayed produce and fetch as clients see them: late when they must be, else prompt."""

import asyncio
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.clock import SystemClock
from kprod.protocol.api import ApiKey
from tests.broker.polling import polled

LATE_MS = 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Three brokers, two of which must have a batch."""
    config = EmbeddedConfig(min_insync_replicas=2)
    with EmbeddedCluster(brokers=3, config=config) as running:
        yield running


@pytest.fixture
def consumer(cluster: EmbeddedCluster) -> Iterator[confluent_kafka.Consumer]:
    """A consumer that wants a thousand bytes or half a minute."""
    running = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.min.bytes": 1_000,
            "fetch.wait.max.ms": LATE_MS,
        }
    )
    yield running
    running.close()


def test_min_bytes_unmet_answers_late(
    cluster: EmbeddedCluster, consumer: confluent_kafka.Consumer
) -> None:
    """A small record comes when the wait is over, not earlier."""
    cluster.create_topic("late", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("late", b"small")
    assert producer.flush(20) == 0
    clock = SystemClock()
    consumer.assign([confluent_kafka.TopicPartition("late", 0, 0)])
    started_ms = clock.now_ms()

    message = polled(consumer, 20)

    assert message.value() == b"small"
    # One millisecond for the rounding of two clocks.
    assert clock.now_ms() - started_ms >= LATE_MS - 1


def test_min_bytes_met_answers_at_once(
    cluster: EmbeddedCluster, consumer: confluent_kafka.Consumer
) -> None:
    """Enough bytes leave without waiting for anything."""
    cluster.create_topic("prompt", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("prompt", b"x" * 2_000)
    assert producer.flush(20) == 0
    consumer.assign([confluent_kafka.TopicPartition("prompt", 0, 0)])

    message = polled(consumer, 20)

    assert message.value() == b"x" * 2_000


async def sent_when_followers_copy(cluster: EmbeddedCluster, topic: str) -> tuple[bool, Any]:
    """Send one record; whether it was done before the followers copied, and its metadata."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()

    def noted(frame: bytes) -> bytes:
        loop.call_soon_threadsafe(arrived.set)
        return frame

    cluster.faults.rewrite_request(ApiKey.PRODUCE, noted)
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    await producer.start()
    try:
        future = await producer.send(topic, b"value", partition=0)
        await asyncio.wait_for(arrived.wait(), 20)
        # Answered by the broker's thread when it is done with the request.
        before = cluster.describe(topic, 0)
        assert (before.log_end_offset, before.high_watermark) == (1, 0)
        early = future.done()
        for broker in before.isr:
            cluster.catch_up(topic, 0, broker)
        return early, await asyncio.wait_for(future, 20)
    finally:
        await producer.stop()


def test_acks_all_waits_for_followers(cluster: EmbeddedCluster) -> None:
    """A send of aiokafka is done when every in-sync replica has the record, not before."""
    cluster.create_topic("followed", 1)
    leader = cluster.describe("followed", 0).leader_id
    for broker in {0, 1, 2} - {leader}:
        cluster.set_follower_lag("followed", 0, broker, None)

    early, metadata = asyncio.run(sent_when_followers_copy(cluster, "followed"))

    assert early is False
    assert metadata.offset == 0
    assert cluster.describe("followed", 0).high_watermark == 1
