"""kprod's other ways to send real work: futures dropped, callbacks, bulk sends, asyncio.

The loop whose futures are kept is `real_work_clients.run_kprod`, which also describes arguments and
figures; the records, the producer's settings and the clocks are the same.

Thread-safety: one client a process, on the main thread.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from real_work_clients import BLOCK, BLOCKS_KEPT, Begun, Figures
from real_work_shapes import Shape

if TYPE_CHECKING:
    import kprod


def run_dropped(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    """Drop each future at once; the end offsets tell whether all arrived."""
    blocks = shape.blocks(BLOCK)
    with _warmed(address, topic, shape) as producer:
        send, count, begun = producer.send, 0, Begun()
        while begun.elapsed_s() < seconds:
            for key, value in next(blocks):
                send(topic, value, key=key)
            count += BLOCK
        producer.flush()
        return begun.figures(count, warm_up=shape.partitions)


def run_callbacks(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    """Call a Python function for each record, which counts."""
    blocks = shape.blocks(BLOCK)
    delivered = 0
    failures: list[object] = []

    def on_delivery(_: object, error: object) -> None:
        nonlocal delivered
        delivered += 1
        if error is not None:
            failures.append(error)

    with _warmed(address, topic, shape) as producer:
        send, count, begun = producer.send, 0, Begun()
        while begun.elapsed_s() < seconds:
            for key, value in next(blocks):
                send(topic, value, key=key, on_delivery=on_delivery)
            count += BLOCK
        producer.flush()
        figures = begun.figures(count, warm_up=shape.partitions)
    if failures or delivered != count:
        raise RuntimeError(f"{delivered} of {count} records were reported, {failures[:3]}")
    return figures


def run_many(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    """Send ten thousand records a call, from lists."""
    keys, values = zip(*shape.records(BLOCK), strict=True)
    more: dict[str, Any] = {"keys": keys} if shape.keys else {}
    return _run_bulk(address, topic, shape, seconds, lambda it: it.send_many(topic, values, **more))


def run_arrow(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    """Send ten thousand rows of an Arrow table a call."""
    import pyarrow as pa  # noqa: PLC0415 - only where it is asked for

    keys, values = zip(*shape.records(BLOCK), strict=True)
    columns = {"key": keys, "value": values}
    rows = pa.record_batch({name: pa.array(it, pa.binary()) for name, it in columns.items()})
    key = "key" if shape.keys else None
    return _run_bulk(address, topic, shape, seconds, lambda it: it.send_arrow(topic, rows, key=key))


def _run_bulk(  # noqa: PLR0917 - a run, and its call
    address: str,
    topic: str,
    shape: Shape,
    seconds: float,
    send_block: "Callable[[kprod.Producer], Any]",
) -> Figures:
    """Keep the receipts of the last 100,000 records, and check each."""
    with _warmed(address, topic, shape) as producer:
        kept: deque[Any] = deque()
        count, begun = 0, Begun()
        while begun.elapsed_s() < seconds:
            kept.append(send_block(producer))
            count += BLOCK
            while len(kept) > BLOCKS_KEPT and kept[0].done():
                kept.popleft().result()
        while kept:
            kept.popleft().result()
        return begun.figures(count, warm_up=shape.partitions)


def run_asyncio(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    """Await each `send` of one task, and each of the last 100,000 deliveries."""
    return asyncio.run(_run_asyncio(address, topic, shape, seconds))


async def _run_asyncio(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    import kprod  # noqa: PLC0415 - as below

    blocks = shape.blocks(BLOCK)
    async with kprod.AsyncProducer(
        bootstrap_servers=address, compression_type=shape.codec
    ) as producer:
        send = producer.send
        for partition in range(shape.partitions):
            await (await send(topic, b"warm", partition=partition))
        kept: deque[list[Any]] = deque()
        count, begun = 0, Begun()
        while begun.elapsed_s() < seconds:
            kept.append([await send(topic, value, key=key) for key, value in next(blocks)])
            count += BLOCK
            while len(kept) > BLOCKS_KEPT and kept[0][-1].done():
                await _delivered(kept.popleft())
        while kept:
            await _delivered(kept.popleft())
        return begun.figures(count, warm_up=shape.partitions)


async def _delivered(block: list[Any]) -> None:
    for delivery in block:
        await delivery


@contextlib.contextmanager
def _warmed(address: str, topic: str, shape: Shape) -> "Generator[kprod.Producer]":
    """A producer that knows the topic's partitions, with a record in each."""
    import kprod  # noqa: PLC0415 - each process has one client only

    with kprod.Producer(bootstrap_servers=address, compression_type=shape.codec) as producer:
        for partition in range(shape.partitions):
            producer.send(topic, b"warm", partition=partition).result()
        yield producer


WAYS: Mapping[str, Callable[[str, str, Shape, float], Figures]] = {
    "kprod, futures dropped": run_dropped,
    "kprod, callbacks": run_callbacks,
    "kprod, send_many": run_many,
    "kprod, send_arrow": run_arrow,
    "kprod, asyncio": run_asyncio,
}
