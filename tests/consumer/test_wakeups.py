"""The I/O thread is woken for a freed block only if it waits for one."""

from collections.abc import Iterator
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.consumer.consumer import Consumer
from kprod.model import TopicPartition
from tests.consumer.reading import consumer_of, fill, poll_count

T0 = TopicPartition("t", 0)
ONE_BATCH: dict[str, Any] = {"batch_size": 256 * 1024, "linger_ms": 60_000}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker; the topic has one partition."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as one:
        yield one


def count_wakes(consumer: Consumer) -> list[None]:
    """Count the wakeups of the I/O thread from now on."""
    wakes: list[None] = []
    mailbox = consumer._kprod.parts.mailbox  # type: ignore[union-attr]
    wake = mailbox.wake

    def counted() -> None:
        wakes.append(None)
        wake()

    mailbox.wake = counted
    return wakes


def test_reading_one_record_at_a_time_wakes_nobody(cluster: EmbeddedCluster) -> None:
    """The next fetch is in flight before the record is returned."""
    with consumer_of(cluster) as consumer:
        consumer.assign([T0])
        consumer.seek_to_end()
        assert consumer.position(T0) == 0
        consumer.poll(0)
        wakes = count_wakes(consumer)
        for _ in range(20):
            fill(cluster, "t", 1)
            assert len(poll_count(consumer, 1)) == 1
            consumer.poll(0)  # frees the block, before the next one arrives
        assert not wakes


@pytest.mark.parametrize("memory_bytes", [65_536, 160_000])
def test_a_fetch_that_waits_for_memory(cluster: EmbeddedCluster, memory_bytes: int) -> None:
    """A batch larger than the memory, or than half of it, is fetched when a block is freed."""
    for _ in range(5):
        with Producer(bootstrap_servers=cluster.bootstrap_servers, **ONE_BATCH) as producer:
            for _ in range(500):
                producer.send("t", bytes(200))
    with consumer_of(cluster, fetch_buffer_memory=memory_bytes) as consumer:
        consumer.assign([T0])
        assert len(poll_count(consumer, 2_500)) == 2_500
