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
import json
from collections.abc import Mapping
from functools import partial

import race_brokers
from measure import child_figures
from race_brokers import RaceBroker
from report import Contestant, Report, main
from report_values import Metric
from turns import FLUSH_S, Turns, confluent_turns, kprod_idle, kprod_turns

FEW, MANY = 10, 10_000
GIB = 1 << 30
DEFAULT_MEMORY = 64 << 20
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
        if broker.end_offset(topic, partitions) != figures["offset"]:
            raise RuntimeError(
                f"{figures['offset']:,.0f} records were sent, and the broker has others"
            )
    return figures


def _child(given: argparse.Namespace) -> Mapping[str, float]:
    turns = Turns(given.child, given.topic, given.partitions, given.memory, given.seconds)
    if given.idle:
        figures = kprod_idle(turns)
        idle_percent = 100 * figures["cpu_s"] / figures["elapsed_s"]
        return {IDLE.name: idle_percent, "offset": figures["offset"]}
    figures = confluent_turns(turns) if given.peer else kprod_turns(turns)
    return {
        RATE.name: figures["count"] / figures["elapsed_s"],
        CPU.name: figures["cpu_s"] * 1e6 / figures["count"],
        GROWTH.name: figures["grown_bytes"] / 2**20,
        "offset": figures["offset"],
    }


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
