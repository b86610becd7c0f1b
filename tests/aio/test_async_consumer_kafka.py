"""AsyncConsumer at Apache Kafka: nothing is lost by reads that are cancelled again and again."""

import asyncio
import contextlib
import random
import uuid

import pytest

from kprod import AsyncConsumer, AsyncProducer
from kprod.model import TopicPartition
from tests.aio.conftest import Run
from tests.plugins.kafka_nodes import KafkaNodes

COUNT = 5_000


async def send(address: str, topic: str) -> None:
    """Send numbers over two partitions, in pieces."""
    async with AsyncProducer(bootstrap_servers=address, linger_ms=1) as producer:
        for number in range(COUNT):
            await producer.send(topic, b"%d" % number, partition=number % 2)
            if number % 100 == 0:
                await producer.flush()


async def take(consumer: AsyncConsumer, means: int, seen: dict[int, list[int]]) -> None:
    """Read by one of three means, and note the records."""
    if means == 0:
        for record in await consumer.poll():
            seen[record.partition].append(int(record.value))
    elif means == 1:
        for row in (await consumer.poll_arrow(max_rows=50)).to_pylist():
            seen[row["partition"]].append(int(row["value"]))
    else:
        async for record in consumer:
            seen[record.partition].append(int(record.value))


async def read(address: str, topic: str) -> dict[int, list[int]]:
    """Read everything; each read is cancelled after a time that is often too short."""
    rng = random.Random(7)
    seen: dict[int, list[int]] = {0: [], 1: []}
    async with AsyncConsumer(
        bootstrap_servers=address, auto_offset_reset="earliest", max_poll_records=50
    ) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in (0, 1)])
        while sum(map(len, seen.values())) < COUNT:
            within_s = rng.choice([0, 0.000_1, 0.001, 0.01])
            reading = asyncio.create_task(take(consumer, rng.randrange(3), seen))
            await asyncio.wait([reading], timeout=within_s)
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
    return seen


@pytest.mark.timeout(120)
def test_cancelled_reads_lose_nothing(run: Run[dict[int, list[int]]], kafka: KafkaNodes) -> None:
    """Each record once, in the order of its partition, while they arrive."""
    address, topic = kafka.bootstrap_servers, f"async-cancelled-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=2)

    async def both() -> dict[int, list[int]]:
        _, seen = await asyncio.gather(send(address, topic), read(address, topic))
        return seen

    seen = run(both())
    assert seen == {part: list(range(part, COUNT, 2)) for part in (0, 1)}
