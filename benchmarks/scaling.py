"""Ten thousand partitions beside ten: what a partition costs that gets one record in its turn.

A librdkafka mock cluster of three brokers; explicit partitions, round robin; 1 GiB of buffer memory
and linger 500 ms, so that a batch of each partition has time to gather. Each run is a process of
its own; runs of few and many partitions alternate. A run counts only if the topic's end offsets sum
up to the records sent.

The same 10,000 partitions through confluent-kafka with a queue of that size, in turn with kprod.

Then the same with the default 64 MiB of buffer memory, where what matters is that it completes and
that memory stays bounded; and the CPU time of a producer that is idle behind 10,000 partitions.

    python benchmarks/scaling.py [--quick]

Source: performance goal of half the rate; Kafka's KAFKA-5562 class of scans over all partitions.
"""

import argparse
import itertools
import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import race_brokers
from measure import child_figures, own_process_figures
from race_brokers import RaceBroker
from race_clients import BATCH_BYTES
from report import Contestant, Report, main
from report_values import Metric

FEW, MANY = 10, 10_000
GIB = 1 << 30
DEFAULT_MEMORY = 64 << 20
LINGER_MS = 500
VALUE = b"v" * 100
BLOCK = 10_000
FLUSH_S = 60.0
RATE = Metric("rate", "records/s")
CPU = Metric("CPU per record", "us", more_is_better=False)
GROWTH = Metric("resident size over the start's", "MiB", more_is_better=False)
PEER = "confluent-kafka"
PEER_RATE = Metric(f"rate at {MANY:,} partitions", "records/s")
PEER_CPU = Metric(f"CPU per record at {MANY:,} partitions", "us", more_is_better=False)
IDLE = Metric("idle", "% of a core", more_is_better=False)


def benchmark(report: Report) -> None:
    """Rates, bounded memory, idleness."""
    given = report.options.extra
    if given.child:
        print(json.dumps(_child(given)))
        raise SystemExit(0)
    seconds = given.seconds or report.pick(10.0, 1.0)
    with race_brokers.running("mock") as broker:
        few = Contestant(f"{FEW} partitions", partial(_run, broker, FEW, GIB, seconds))
        many = Contestant(f"{MANY:,} partitions", partial(_run, broker, MANY, GIB, seconds))
        report.compare([few, many], metric=[RATE, CPU, GROWTH], baseline=few.name)
        names = {"kprod": False, PEER: True}
        sides = [
            Contestant(name, partial(_run_beside, broker, seconds, is_peer=is_peer))
            for name, is_peer in names.items()
        ]
        report.compare(sides, metric=[PEER_RATE, PEER_CPU], baseline=PEER)
        small = _run(broker, MANY, DEFAULT_MEMORY, seconds)
        for metric in (RATE, CPU, GROWTH):
            name = f"{MANY:,} partitions, 64 MiB"
            report.add(metric, name, [small[metric.name]])
        for count in (FEW, MANY):
            idle = _run(broker, count, DEFAULT_MEMORY, report.pick(10.0, 2.0), option="--idle")
            report.add(IDLE, f"{count:,} partitions", [idle[IDLE.name]])


def _run_beside(broker: RaceBroker, seconds: float, *, is_peer: bool) -> Mapping[str, float]:
    """Run one side of the race at many partitions."""
    figures = _run(broker, MANY, GIB, seconds, option="--peer" if is_peer else "")
    return {PEER_RATE.name: figures[RATE.name], PEER_CPU.name: figures[CPU.name]}


def _run(
    broker: RaceBroker, partitions: int, memory: int, seconds: float, *, option: str = ""
) -> Mapping[str, float]:
    with broker.topic(f"{partitions}", partitions) as topic:
        command = [__file__, "--child", broker.address, "--topic", topic]
        command += ["--partitions", str(partitions), "--memory", str(memory)]
        command += ["--seconds", str(seconds), *[option] * bool(option)]
        figures = child_figures(command, timeout_s=FLUSH_S * 2 + seconds * 4)
        if broker.end_offset(topic, partitions) != figures["count"]:
            raise RuntimeError(
                f"{figures['count']:,.0f} records were sent, and the broker has others"
            )
    return figures


def _child(given: argparse.Namespace) -> Mapping[str, float]:
    if given.peer:
        return _peer_child(given)
    import kprod  # noqa: PLC0415 - the parent does without

    topic, partitions = given.topic, range(given.partitions)
    with kprod.Producer(
        bootstrap_servers=given.child, buffer_memory=given.memory, linger_ms=LINGER_MS
    ) as producer:
        send = producer.send
        for partition in partitions:
            send(topic, VALUE, partition=partition)
        _flush(producer)
        begun = _Begun(given.partitions)
        if given.idle:
            time.sleep(given.seconds)
            spent_s = time.process_time() - begun.cpu_s
            return {IDLE.name: 100 * spent_s / given.seconds, "count": given.partitions}
        turns = itertools.cycle(partitions)
        sent = 0
        while begun.elapsed_s() < given.seconds:
            for partition in itertools.islice(turns, BLOCK):
                send(topic, VALUE, partition=partition)
            sent += BLOCK
        _flush(producer)
        return begun.figures(sent)


def _peer_child(given: argparse.Namespace) -> Mapping[str, float]:
    """The same work by confluent-kafka, its queue full at as many bytes."""
    import confluent_kafka  # noqa: PLC0415 - as above

    settings = {
        "bootstrap.servers": given.child,
        "enable.idempotence": True,
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": given.memory >> 10,
        "delivery.report.only.error": True,
    }
    producer = confluent_kafka.Producer(settings)
    topic, partitions = given.topic, range(given.partitions)
    for partition in partitions:
        producer.produce(topic, VALUE, partition=partition)
    _flush(producer)
    begun = _Begun(given.partitions)
    turns = itertools.cycle(partitions)
    sent = 0
    while begun.elapsed_s() < given.seconds:
        for partition in itertools.islice(turns, BLOCK):
            _produce(producer, topic, partition)
        sent += BLOCK
        producer.poll(0)
    _flush(producer)
    return begun.figures(sent)


def _produce(producer: Any, topic: str, partition: int) -> None:  # noqa: ANN401 - as for _flush
    while True:
        try:
            producer.produce(topic, VALUE, partition=partition)
        except BufferError:  # the queue is full
            producer.poll(0.01)
        else:
            return


class _Begun:
    """The clocks since the first record that counts."""

    def __init__(self, warm_up: int) -> None:
        self.warm_up = warm_up
        self.peak_bytes = own_process_figures()["peak_bytes"]
        self.cpu_s = time.process_time()
        self.began_s = time.perf_counter()

    def elapsed_s(self) -> float:
        """Return seconds since then."""
        return time.perf_counter() - self.began_s

    def figures(self, sent: int) -> Mapping[str, float]:
        """Return the run's figures, now that everything is acknowledged."""
        elapsed_s, cpu_s = self.elapsed_s(), time.process_time() - self.cpu_s
        return {
            RATE.name: sent / elapsed_s,
            CPU.name: cpu_s * 1e6 / sent,
            GROWTH.name: (own_process_figures()["peak_bytes"] - self.peak_bytes) / 2**20,
            "count": self.warm_up + sent,
        }


def _flush(producer: Any) -> None:  # noqa: ANN401 - kprod is imported by the child alone
    undelivered = producer.flush(FLUSH_S)
    if undelivered:
        raise RuntimeError(f"{undelivered:,} records were not delivered")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, help="of each run; 10 by default")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    parser.add_argument("--partitions", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--idle", action="store_true", help=argparse.SUPPRESS)


if __name__ == "__main__":
    main("10,000 partitions beside 10, round robin", benchmark, arguments=_arguments)
