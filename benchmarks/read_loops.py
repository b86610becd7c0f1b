"""Readers that run in asyncio; see `read_clients.py`.

Thread-safety: one reader a process, on the main thread.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from read_load import CHUNK, FETCH_BYTES, ReadLoad, counted


def kprod_async(load: ReadLoad) -> None:
    """As it comes: `async for record in consumer`."""
    asyncio.run(_kprod_async(load))


async def _kprod_async(load: ReadLoad) -> None:
    import kprod  # noqa: PLC0415 - as above

    async with kprod.AsyncConsumer(
        bootstrap_servers=load.address, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(load.topic, number) for number in range(load.partitions)])
        while load.check([(it.partition, it.offset) for it in await consumer.poll(1.0, CHUNK)]):
            pass
        consumer.seek_to_beginning()
        load.begin()
        await _iterate(load, consumer, consumer.seek_to_beginning)


async def _iterate(load: ReadLoad, consumer: Any, go_back: Callable[[], object]) -> None:  # noqa: ANN401 - either client's
    """Read by `async for`, which is left once for each of many records."""
    while load.goes_on:
        size = min(CHUNK * 10, load.record_count - load._in_round)  # noqa: SLF001
        count = total = 0
        async for record in consumer:
            total += len(record.value)
            count += 1
            if count == size:
                break
        if load.take(count, total):
            go_back()


def aiokafka_getmany(load: ReadLoad) -> None:
    """aiokafka, `getmany` with ten thousand records a call."""
    asyncio.run(_aiokafka(load))


def aiokafka_async(load: ReadLoad) -> None:
    """aiokafka, `async for message in consumer`."""
    asyncio.run(_aiokafka(load, by_one=True))


async def _aiokafka(load: ReadLoad, *, by_one: bool = False) -> None:
    import aiokafka  # noqa: PLC0415 - as above

    partitions = [aiokafka.TopicPartition(load.topic, each) for each in range(load.partitions)]
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=load.address,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
    )

    def go_back() -> None:
        for each in partitions:
            consumer.seek(each, 0)

    async with consumer:
        consumer.assign(partitions)
        is_checking = True
        while is_checking:
            found = await consumer.getmany(timeout_ms=1_000, max_records=CHUNK)
            is_checking = load.check(
                [(it.partition, it.offset) for records in found.values() for it in records]
            )
        go_back()
        load.begin()
        if by_one:
            await _iterate(load, consumer, go_back)
            return
        while load.goes_on:
            if load.take(*counted(await consumer.getmany(timeout_ms=1_000, max_records=CHUNK))):
                go_back()
