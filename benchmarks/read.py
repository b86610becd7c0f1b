"""Rates of Kafka consumers, in turn, from one Apache Kafka, beside the broker's limit.

Values of 100 bytes; topics that lie in the page cache; each run in a process of its own, which
reads the topic round and round for at least 30 s and touches every value. Runs of different readers
alternate, so that a ratio is of one round.

    python benchmarks/read.py                       all of it: some hours
    python benchmarks/read.py --quick               a glance
    … --parts plain --seconds 6 --kafka HOST:PORT --json part1.json
    … --merge part1.json part2.json --json read.json --plot read.png

Parts: `plain` and `six` (1 and 6 partitions), `lz4`, `zstd`, `latency` (one record, sent and read:
by one sender for all readers, then by the reader's own process, there with all its threads on one
core, too; see `bursts.py` and `read_sender.py`),
`idle` (1,000 partitions without records), `stalled` (1,000 partitions with more records than may be
buffered, and an application that does not ask for them), `work` (read, transform, send, commit).
How each reader is set up: see `read_clients.py`; the limit: `read_limit.py`; the three before the
last: `read_waits.py`; the last: `read_work.py`.
"""

import argparse
import json
import os
import string
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import race_brokers
import read_sender
import read_waits
from bursts import BurstRounds, bursts_asked_for
from measure import child_figures
from race_brokers import ANSWER_S, RaceBroker
from read_clients import READERS
from read_load import QUEUES, ReadLoad
from read_work import WORKERS, Work
from report import Contestant, Report, main
from report_values import Metric

LIMIT = "broker's limit"
CONSUME = "confluent-kafka, consume"
CONFLUENT = "confluent-kafka"
SENDER = "sender"
WAITERS = ("kprod", CONFLUENT)
SHAPES = {"plain": (1, "none"), "six": (6, "none"), "lz4": (1, "lz4"), "zstd": (1, "zstd")}
TITLES = {
    "plain": "1 partition",
    "six": "6 partitions",
    "lz4": "lz4, 1 partition",
    "zstd": "zstd, 1 partition",
}
WAITS = ("latency", "idle", "stalled")
WORK = "work"
WORK_COUNT, WORK_COUNT_QUICK = 2_000_000, 50_000
WORK_S = 60.0
COUNT, COUNT_QUICK = 20_000_000, 1_000_000
SECONDS, SECONDS_QUICK = 30.0, 0.5
CHOICE_S, CHOICE_QUICK_S = 3.0, 0.3
ROUNDS = 5
CODEC_READERS = ("kprod, iterate", "kprod, poll", "kprod, poll_arrow", CONSUME)
PARTITIONS = 1_000
STALLED_COUNT, STALLED_BYTES = 220_000, 1_000  # 210 MiB in all
START_S = 120.0
LEADERS_S = 0.2  # between two looks whether a topic has leaders
BURSTS, BURST = 40, 250  # of each client in a round, and records in each
POOL = 10_000
MIB = 1 << 20


class Filling(NamedTuple):
    """A topic to be read.

    Attributes:
        topic: Its name.
        partitions: Number of partitions.
        size: Records in all, spread evenly.
        codec: Codec of the batches.
        value_bytes: Size of each value.
    """

    topic: str
    partitions: int
    size: int = 0
    codec: str = "none"
    value_bytes: int = 100


def benchmark(report: Report) -> None:
    """Race, or put parts together."""
    given = report.options.extra
    if given.child:
        print(json.dumps(_run_child(given)))
        raise SystemExit(0)
    if given.merge:
        for path in given.merge:
            report.merge(path)
        return
    with race_brokers.running("kafka", given.kafka) as broker:
        for part in given.parts:
            if part in SHAPES:
                _race(report, broker, part)
            elif part == "latency":
                _race_latency(report, broker)
            elif part == WORK:
                _race_work(report, broker)
            else:
                _race_waiting(report, broker, part)


def _race(report: Report, broker: RaceBroker, part: str) -> None:
    given = report.options.extra
    partitions, codec = SHAPES[part]
    count = given.count or report.pick(COUNT, COUNT_QUICK)
    topic = _filled(broker, Filling(f"read-{part}-{count}", partitions, count, codec))
    load = ["--topic", topic, "--partitions", str(partitions), "--count", str(count)]
    seconds = given.seconds or report.pick(SECONDS, SECONDS_QUICK)
    queue = _best_queue(report, broker, load)
    print(f"{part}: confluent-kafka reads with fetch.queue.backoff.ms=1, queue {queue!r}")
    names = (LIMIT, *READERS) if codec == "none" else (LIMIT, *CODEC_READERS)
    rate = Metric(f"{part}: rate", "records/s")
    metrics = [
        rate,
        Metric(f"{part}: CPU per record", "us", more_is_better=False),
        Metric(f"{part}: peak memory", "MiB", more_is_better=False),
    ]

    def measured(name: str) -> Mapping[str, float]:
        found = _child(broker, name, [*load, "--seconds", str(seconds), "--queue", queue], seconds)
        return {
            metrics[0].name: found["count"] / found["elapsed_s"],
            metrics[1].name: found["cpu_s"] * 1e6 / found["count"],
            metrics[2].name: found["peak_bytes"] / MIB,
        }

    rows = report.compare(
        [Contestant(name, partial(measured, name)) for name in names if name in given.readers],
        metric=metrics,
        baseline=CONSUME if CONSUME in given.readers else None,
        rounds=report.pick(ROUNDS, 1),
    )
    rates = {row.series: row.samples for row in rows if row.metric == rate.name}
    if LIMIT in rates:
        share = Metric(f"{part}: share of the broker's limit", "%")
        for name, found in rates.items():
            pairs = zip(found, rates[LIMIT], strict=True)
            report.add(share, name, [100 * each / limit for each, limit in pairs])


def _best_queue(report: Report, broker: RaceBroker, load: list[str]) -> str:
    """Find the settings of its queue with which confluent-kafka is fastest here."""
    seconds = report.pick(CHOICE_S, CHOICE_QUICK_S)

    def rate(queue: str) -> float:
        more = ["--seconds", str(seconds), "--queue", queue]
        found = _child(broker, CONSUME, [*load, *more], seconds)
        return found["count"] / found["elapsed_s"]

    return max(QUEUES, key=rate)


def _race_latency(report: Report, broker: RaceBroker) -> None:
    """Race with one sender for all, with one in each process, and so on one core."""
    commands = {}
    for name in WAITERS:  # a topic for each: their records come at the same time
        topic = _filled(broker, Filling(f"read-latency-{name}", 1))
        load = ["--kafka", broker.address, "--part", "latency", "--topic", topic]
        commands[name] = [__file__, "--child", name, *load]
    sends = [__file__, "--child", SENDER, "--kafka", broker.address, "--sender"]
    with read_sender.sender(sends) as requests:
        _race_bursts(report, "latency", commands, ["--sender", str(requests)])
    _race_bursts(report, "latency, sent by the reader's process", commands)
    if hasattr(os, "sched_setaffinity"):
        placement = ["--core", str(max(os.sched_getaffinity(0)))]
        _race_bursts(report, "the same, on one core", commands, placement)


def _race_bursts(
    report: Report, title: str, commands: Mapping[str, list[str]], more: Sequence[str] = ()
) -> None:
    metrics = {
        "p50": Metric(f"{title}: p50", "us", more_is_better=False),
        "p99": Metric(f"{title}: p99", "us", more_is_better=False),
        "cpu": Metric(f"{title}: CPU of the process", "us/record", more_is_better=False),
    }
    programs = {name: [*command, *more] for name, command in commands.items()}
    rounds = BurstRounds(programs, bursts=report.pick(BURSTS, 2), size=BURST)
    rounds.run()  # the broker's Java compiles what all of them need

    def measured(client: str) -> Mapping[str, float]:
        figures = rounds.next_figures(client)
        return {metric.name: figures[name] for name, metric in metrics.items()}

    report.compare(
        [Contestant(name, partial(measured, name)) for name in WAITERS],
        metric=list(metrics.values()),
        baseline=CONFLUENT,
        rounds=report.pick(ROUNDS, 1),
    )


def _race_waiting(report: Report, broker: RaceBroker, part: str) -> None:
    partitions = report.pick(PARTITIONS, 100)
    if part == "idle":
        metric = Metric(f"idle: {partitions:,} partitions", "% of a core", more_is_better=False)
        topic = _filled(broker, Filling(f"read-idle-{partitions}", partitions))
        seconds = report.pick(10.0, 2.0)
    else:
        metric = Metric("stalled: memory that came", "x fetch_buffer_memory", more_is_better=False)
        name = f"read-stalled-{partitions}"
        filling = Filling(name, partitions, STALLED_COUNT, value_bytes=STALLED_BYTES)
        topic = _filled(broker, filling)
        seconds = report.pick(8.0, 3.0)
    load = ["--part", part, "--topic", topic]
    load += ["--partitions", str(partitions), "--seconds", str(seconds)]

    def measured(client: str) -> float:
        return _child(broker, client, load, seconds)["figure"]

    report.compare(
        [Contestant(name, partial(measured, name)) for name in WAITERS],
        metric=metric,
        baseline=CONFLUENT,
        rounds=report.pick(ROUNDS, 1),
    )


def _race_work(report: Report, broker: RaceBroker) -> None:
    count = report.options.extra.count or report.pick(WORK_COUNT, WORK_COUNT_QUICK)
    topic = _filled(broker, Filling(f"read-work-{count}", 1, count))
    rate = Metric("work: rate", "records/s")
    cpu = Metric("work: CPU per record", "us", more_is_better=False)
    peak = Metric("work: peak memory", "MiB", more_is_better=False)

    def measured(client: str) -> Mapping[str, float]:
        with broker.topic("read-work", 1) as output:
            load = ["--part", WORK, "--topic", topic, "--output", output, "--count", str(count)]
            found = _child(broker, client, load, WORK_S)
            sent = broker.end_offset(output, 1)
            if sent != count:
                raise RuntimeError(f"{client} sent {sent:,} records, not {count:,}")
        return {
            rate.name: count / found["elapsed_s"],
            cpu.name: found["cpu_s"] * 1e6 / count,
            peak.name: found["peak_bytes"] / MIB,
        }

    report.compare(
        [Contestant(name, partial(measured, name)) for name in WORKERS],
        metric=[rate, cpu, peak],
        baseline=CONFLUENT,
        rounds=report.pick(ROUNDS, 1),
    )


def _filled(broker: RaceBroker, filling: Filling) -> str:
    """Make a topic with its records, unless it is there; returns its name."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - not in the children

    topic, partitions, count = filling[:3]
    admin = AdminClient({"bootstrap.servers": broker.address})
    if topic not in admin.list_topics(timeout=ANSWER_S).topics:
        broker.create(topic, partitions)
        while not all(
            each.leader >= 0
            for each in admin.list_topics(topic, ANSWER_S).topics[topic].partitions.values()
        ):
            time.sleep(LEADERS_S)
        _fill(broker.address, filling)
    if count and broker.end_offset(topic, partitions) != count:
        raise RuntimeError(f"topic {topic} has not {count:,} records; delete it")
    return topic


def _fill(address: str, filling: Filling) -> None:
    import kprod  # noqa: PLC0415 - not in its peers' processes

    topic, partitions, count, codec, value_bytes = filling
    filler = string.ascii_lowercase * (value_bytes // len(string.ascii_lowercase) + 1)
    values = [
        f"{number * 2654435761 % 2**64:020d} {filler}".encode()[:value_bytes]
        for number in range(POOL)
    ]
    with kprod.Producer(
        compression_type=kprod.Codec[codec.upper()],
        bootstrap_servers=address,
        batch_size=MIB // 2,
        linger_ms=20,
    ) as producer:
        for partition in range(partitions):
            left = count // partitions + (partition < count % partitions)
            while left:
                block = values[: min(left, POOL)]
                producer.send_many(topic, block, partitions=[partition] * len(block))
                left -= len(block)
        if producer.flush():
            raise RuntimeError("not everything was sent")


def _child(broker: RaceBroker, name: str, more: list[str], seconds: float) -> Mapping[str, float]:
    command = [__file__, "--child", name, "--kafka", broker.address, *more]
    return child_figures(command, timeout_s=START_S + seconds * 4)


def _run_child(given: argparse.Namespace) -> Mapping[str, float]:
    if given.child == SENDER:
        read_sender.serve(given.kafka, given.sender)
    if given.core is not None:
        os.sched_setaffinity(0, {given.core})
    if given.part in WAITS:
        wait = read_waits.Wait(
            given.child, given.kafka, given.topic, given.partitions or 1, given.seconds or 0
        )
        if given.part == "latency":
            return read_waits.latency(wait, bursts_asked_for(), given.sender)
        return {"figure": (read_waits.idle if given.part == "idle" else read_waits.stalled)(wait)}
    if given.part == WORK:
        return WORKERS[given.child](Work(given.kafka, given.topic, given.output, given.count))
    load = ReadLoad(
        given.kafka, given.topic, given.partitions, given.count, given.seconds, given.queue
    )
    if given.child == LIMIT:
        from read_limit import replay  # noqa: PLC0415 - kprod, which its peers do without

        replay(load)
    else:
        READERS[given.child](load)
    return load.figures()


def _plot(report: Report, path: Path) -> None:
    from race_plot import bars_of_rows, draw_bars  # noqa: PLC0415 - matplotlib takes a second

    draw_bars(report.title, list(bars_of_rows(report.rows)), path, titles=TITLES)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parts = (*SHAPES, *WAITS, WORK)
    readers = (LIMIT, *READERS)
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--readers", nargs="+", choices=readers, default=readers)
    parser.add_argument("--seconds", type=float, help="of each run; 30 by default")
    parser.add_argument("--count", type=int, help="records of a topic")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="an Apache Kafka that runs")
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="JSON", help="only put parts together"
    )
    for name in ("--child", "--part", "--topic", "--output", "--queue"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--sender", type=Path, help=argparse.SUPPRESS)
    for name in ("--partitions", "--core"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)


if __name__ == "__main__":
    main(
        "Kafka consumers, sustained, values of 100 bytes",
        benchmark,
        arguments=_arguments,
        plot=_plot,
    )
