"""One paused partition of 1,000: order, the memory's bound, and nothing kept back."""

import threading
from typing import Any

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.model import TopicPartition
from tests.consumer.reading import LIMIT_S, consumer_of, poll_until

PARTITIONS, EACH = 1_000, 20
MEMORY_BYTES = 256 * 1024
# A broker returns one batch whole though less is asked for; with it come the response's fields.
LIMIT_BYTES = MEMORY_BYTES + EACH * 120 + 128
PAUSED = TopicPartition("t", 500)


def fill_all(cluster: EmbeddedCluster) -> None:
    """Send as many records to each partition."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(EACH * PARTITIONS):
            producer.send("t", bytes(100), partition=number % PARTITIONS)
        assert producer.flush(LIMIT_S) == 0


def test_one_paused_partition_of_1_000() -> None:
    """The others are read in order within the memory; a stalled application stops the fetching."""
    with (
        EmbeddedCluster(brokers=1, topics={"t": PARTITIONS}) as cluster,
        consumer_of(cluster, "t", fetch_buffer_memory=MEMORY_BYTES) as consumer,
    ):
        fill_all(cluster)
        buffer = consumer._kprod.parts.buffer  # type: ignore[union-attr]
        found = poll_until(consumer, bool)
        consumer.pause(PAUSED)
        before = sum(it.partition == PAUSED.partition for it in found)
        others: int = (PARTITIONS - 1) * EACH - len(found) + before

        def is_enough(more: list[Any]) -> bool:
            assert buffer.held_bytes + buffer.decoding_bytes <= LIMIT_BYTES
            return len(more) == others

        read = poll_until(consumer, is_enough)
        assert not any(it.partition == PAUSED.partition for it in read)
        consumer.resume(PAUSED)
        rest = poll_until(consumer, lambda more: len(more) >= EACH - before)
        offsets: dict[int, list[int]] = {}
        for record in (*found, *read, *rest):
            offsets.setdefault(record.partition, []).append(record.offset)
        assert offsets == {it: list(range(EACH)) for it in range(PARTITIONS)}
        consumer.seek_to_beginning()
        poll_until(consumer, bool)
        for _ in range(10):  # stalled: nobody polls
            assert buffer.held_bytes + buffer.decoding_bytes <= LIMIT_BYTES
            threading.Event().wait(0.02)
