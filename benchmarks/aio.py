"""asyncio: awaited deliveries per second, and one record alone, kprod beside aiokafka.

Rate. One task sends records of 100 bytes, keeps the last 100,000 deliveries, and awaits each of
them; acks=all, idempotent, linger 5 ms. The broker's end offset must equal the records sent.
aiokafka runs with `max_batch_size` of 1 MB, which suits it better than its default of 16 KiB here,
and without idempotence too, where it may keep more requests in flight.

One record alone. Each record is sent and awaited when the one before is acknowledged, linger 0.

Each round runs in a process of its own; rounds alternate, against the same broker.

    python benchmarks/aio.py                     librdkafka's mock cluster
    python benchmarks/aio.py --broker kafka      starts an Apache Kafka (Java, Maven)
    python benchmarks/aio.py --loop uvloop       both under uvloop
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import race_brokers
from measure import child_figures
from report import Contestant, Report, main
from report_values import Metric

VALUE = b"v" * 100
KEPT = 100_000
WARM_UP = 1_000
RATE = Metric("awaited deliveries", "records/s")
CPU = Metric("CPU", "us/record", more_is_better=False)
ALONE = [
    Metric("p50", "us", more_is_better=False),
    Metric("p99", "us", more_is_better=False),
]

Send = Callable[[str, bytes], Awaitable[Awaitable[Any]]]


def benchmark(report: Report) -> None:
    """Rate, CPU, p50 and p99 of both."""
    given = report.options.extra
    if given.child:
        print(json.dumps(_in_loop(given)))
        raise SystemExit(0)
    count = report.pick(1_000_000, 100_000)
    alone_count = report.pick(10_000, 2_000)
    with race_brokers.running(given.broker) as broker:

        def contestant(name: str, mode: str, count: int) -> Contestant:
            def measure() -> Mapping[str, float]:
                with broker.topic(f"{name} {mode}") as topic:
                    command = [__file__, "--child", name, "--mode", mode, "--count", str(count)]
                    command += ["--address", broker.address, "--topic", topic]
                    figures = child_figures([*command, "--loop", given.loop], timeout_s=300)
                    sent = count + WARM_UP
                    if broker.end_offset(topic) != sent:
                        raise RuntimeError(f"{name}: {sent} sent, {broker.end_offset(topic)} there")
                    return figures

            return Contestant(name, measure)

        report.compare(
            [contestant("kprod", "rate", count), contestant("aiokafka", "rate", count)],
            metric=[RATE, CPU],
            baseline="aiokafka",
        )
        report.compare(
            [
                contestant("kprod", "alone", alone_count),
                contestant("aiokafka", "alone", alone_count),
            ],
            metric=ALONE,
            baseline="aiokafka",
        )


def _in_loop(given: argparse.Namespace) -> Mapping[str, float]:
    factory = None
    if given.loop == "uvloop":
        import uvloop  # noqa: PLC0415 - only where it is asked for

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_measured(given))


async def _measured(given: argparse.Namespace) -> Mapping[str, float]:
    linger_ms = 5 if given.mode == "rate" else 0
    async with _producers[given.child](given.address, linger_ms) as send:
        if given.mode == "rate":
            return await _rate(send, given.topic, given.count)
        return await _alone(send, given.topic, given.count)


async def _rate(send: Send, topic: str, count: int) -> Mapping[str, float]:
    for _ in range(WARM_UP):
        await (await send(topic, VALUE))
    kept: deque[Awaitable[Any]] = deque()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(count):
        if len(kept) == KEPT:
            await kept.popleft()
        kept.append(await send(topic, VALUE))
    while kept:
        await kept.popleft()
    taken_s = time.perf_counter() - began_s
    cpu_s = time.process_time() - began_cpu_s
    return {RATE.name: count / taken_s, CPU.name: cpu_s * 1e6 / count}


async def _alone(send: Send, topic: str, count: int) -> Mapping[str, float]:
    for _ in range(WARM_UP):
        await (await send(topic, VALUE))
    taken_ns = []
    for _ in range(count):
        began_ns = time.perf_counter_ns()
        await (await send(topic, VALUE))
        taken_ns.append(time.perf_counter_ns() - began_ns)
    hundredths = statistics.quantiles(taken_ns, n=100)
    return {"p50": hundredths[49] / 1_000, "p99": hundredths[98] / 1_000}


@contextlib.asynccontextmanager
async def _kprod(address: str, linger_ms: int) -> AsyncGenerator[Send]:
    import kprod  # noqa: PLC0415 - each child has one client only

    async with kprod.AsyncProducer(bootstrap_servers=address, linger_ms=linger_ms) as producer:
        yield producer.send


@contextlib.asynccontextmanager
async def _aiokafka(address: str, linger_ms: int) -> AsyncGenerator[Send]:
    import aiokafka  # noqa: PLC0415 - as above

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=address,
        acks="all",
        enable_idempotence=True,
        linger_ms=linger_ms,
        max_batch_size=1_000_000,
    )
    await producer.start()
    try:
        yield producer.send
    finally:
        await producer.stop()


_producers = {"kprod": _kprod, "aiokafka": _aiokafka}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker", choices=race_brokers.NAMES, default="mock")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    for name in ("child", "mode", "address", "topic"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)


if __name__ == "__main__":
    main("asyncio: awaited deliveries", benchmark, arguments=_arguments)
