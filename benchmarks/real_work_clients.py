"""One client's run of one shape of real work: a loop over `send`, the last 100,000 futures kept.

Keys and values are made before the clock starts. Blocks of them are sent again and again. Each
client is set up as in `race_clients.py`, and with the codec. Default levels are the same in both
(KIP-390; librdkafka's CONFIGURATION.md): zlib's 6, LZ4's fast mode, 3 of zstd.

Thread-safety: one client a process, on the main thread.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from measure import own_process_figures
from race_clients import BATCH_BYTES, LINGER_MS
from real_work_shapes import Shape

if TYPE_CHECKING:
    import confluent_kafka

BLOCK = 10_000
BLOCKS_KEPT = 10
"""Together the 100,000 futures that are kept."""

Figures = Mapping[str, float]


def run_kprod(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    """Send with a future for each record; all of them are checked.

    Args:
        address: `host:port` of a broker.
        topic: Exists and is empty.
        shape: The records to send.
        seconds: Least time of sending.

    Returns:
        `count`, `elapsed_s`, `cpu_s`, `peak_bytes`, `offset` (end offsets, if all arrived once).
    """
    import kprod  # noqa: PLC0415 - each process has one client only

    blocks = shape.blocks(BLOCK)
    with kprod.Producer(bootstrap_servers=address, compression_type=shape.codec) as producer:
        send, failures_of = producer.send, kprod.failures_of
        for partition in range(shape.partitions):
            send(topic, b"warm", partition=partition).result()
        kept: deque[list[Any]] = deque()
        count, begun = 0, Begun()
        while begun.elapsed_s() < seconds:
            kept.append([send(topic, value, key=key) for key, value in next(blocks)])
            count += BLOCK
            while len(kept) > BLOCKS_KEPT and (failures := _failures_now(kept[0])) is not None:
                _check(failures)
                kept.popleft()
        while kept:
            _check(failures_of(kept.popleft()))
        producer.flush()
        return begun.figures(count, warm_up=shape.partitions)


def _failures_now(block: list[Any]) -> list[Any] | None:
    """Return the failed records of a block, or None if some are not settled.

    A caller that waited for them instead would stop with memory left: the records of a block
    are in the batches of all partitions.
    """
    import kprod.errors  # noqa: PLC0415 - as above

    if not block[-1].done():
        return None
    try:
        return kprod.failures_of(block, 0)
    except kprod.errors.KprodTimeout:
        return None


def run_confluent(address: str, topic: str, shape: Shape, seconds: float) -> Figures:
    """`produce` without a callback, polled when the queue is full; see `run_kprod`."""
    import confluent_kafka  # noqa: PLC0415 - as above

    settings = {
        "bootstrap.servers": address,
        "enable.idempotence": True,
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 20,
        "compression.type": shape.codec,
        "partitioner": "murmur2_random",  # the same partitions as kprod and Java
        "delivery.report.only.error": True,
    }
    blocks = shape.blocks(BLOCK)
    producer = confluent_kafka.Producer(settings)
    produce, poll = producer.produce, producer.poll
    for partition in range(shape.partitions):
        produce(topic, b"warm", partition=partition)
    producer.flush()
    count, begun = 0, Begun()
    while begun.elapsed_s() < seconds:
        for key, value in next(blocks):
            try:
                produce(topic, value, key)
            except BufferError:  # the queue is full
                _produce_later(producer, topic, key, value)
        count += BLOCK
        poll(0)
    if left := producer.flush():
        raise RuntimeError(f"{left} records were not delivered")
    return begun.figures(count, warm_up=shape.partitions)


CLIENTS: Mapping[str, Callable[[str, str, Shape, float], Figures]] = {
    "kprod": run_kprod,
    "confluent-kafka": run_confluent,
}


class Begun:
    """The clocks since the first record."""

    def __init__(self) -> None:
        self._cpu_s = time.process_time()
        self._began_s = time.perf_counter()

    def elapsed_s(self) -> float:
        """Return seconds since the first record."""
        return time.perf_counter() - self._began_s

    def figures(self, count: int, *, warm_up: int) -> Figures:
        """Return the run's figures, now that everything is acknowledged."""
        return {
            "elapsed_s": self.elapsed_s(),
            "cpu_s": time.process_time() - self._cpu_s,
            "count": count,
            "offset": count + warm_up,
            "peak_bytes": own_process_figures()["peak_bytes"],
        }


def _produce_later(
    producer: "confluent_kafka.Producer", topic: str, key: bytes | None, value: bytes
) -> None:
    """Wait for room in the queue, then produce."""
    while True:
        producer.poll(0.01)
        with contextlib.suppress(BufferError):
            producer.produce(topic, value, key)
            return


def _check(failures: list[Any]) -> None:
    if failures:
        raise RuntimeError(f"{len(failures)} records failed: {failures[0].exception()!r}")
