"""Bulk sends from asyncio: off the loop's thread, ended by a cancellation."""

import asyncio
import itertools
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kprod import AsyncProducer
from kprod.broker import EmbeddedCluster
from kprod.errors import BufferTimeout, ClosedError
from tests.aio.conftest import Run
from tests.producer.bench import TOPIC, Bench


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of three partitions."""
    with EmbeddedCluster(brokers=1, topics={"orders": 3}) as running:
        yield running


def test_many_records_and_a_table_are_sent(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Through a small buffer, while the loop lives; awaiting the receipts tells where they are."""
    values = [b"%0100d" % number for number in range(20_000)]  # sixty buffers full, of both

    async def deliver() -> None:
        turns = 0

        async def live() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with AsyncProducer(
            bootstrap_servers=cluster.bootstrap_servers, buffer_memory=65_536
        ) as producer:
            other = asyncio.create_task(live())
            many, table = await asyncio.gather(
                producer.send_many("orders", values),
                producer.send_arrow("orders", pa.table({"value": values})),
            )
            for receipt in (many, table):
                assert sum(offsets.count for offsets in (await receipt).values()) == 20_000
            assert turns > 10
            other.cancel()

    run(deliver())
    assert sum(map(len, cluster.records("orders").values())) == 40_000


def test_a_cancelled_bulk_send_stops(run: Run[None], cluster: EmbeddedCluster) -> None:
    """A send of an endless generator: accepted records are sent, and nothing comes after."""
    started = threading.Event()

    def values() -> Iterator[bytes]:
        for number in itertools.count():
            yield b"%d" % number
            started.set()

    async def deliver() -> None:
        async with AsyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            task = asyncio.create_task(producer.send_many("orders", values()))
            await asyncio.to_thread(started.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for thread in threading.enumerate():
                if thread.name.startswith("kprod-bulk"):
                    await asyncio.to_thread(thread.join)
            assert await producer.flush() == 0

    run(deliver())
    assert any(cluster.records("orders").values())


def test_a_rejection_is_raised_in_the_task(run: Run[None]) -> None:
    """A wrong argument, no room, no producer; with the receipt of the accepted records."""

    async def deliver() -> None:
        bench = Bench((0, 0, 0), buffer_memory=32_768, max_block_ms=10)
        producer = AsyncProducer(engine=bench.producer)
        with pytest.raises(TypeError, match="values must be an iterable"):
            await producer.send_many(TOPIC, b"one")
        with pytest.raises(BufferTimeout) as rejected:
            await producer.send_many(TOPIC, [b"v" * 10_000] * 10)
        assert 0 < rejected.value.receipt.record_count < 10  # type: ignore[attr-defined]
        bench.producer.close(0)
        with pytest.raises(ClosedError):
            await producer.send_many(TOPIC, [b"v"])
        with pytest.raises(ClosedError, match="not open"):
            await AsyncProducer(bootstrap_servers="localhost:1").send_arrow(TOPIC, None)

    run(deliver())
