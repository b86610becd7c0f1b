"""Sustained rates of Kafka producers, in turn, against three brokers, beside the brokers' limits.

Each run is a process of its own: it sends for at least 30 s and at least 50 times kprod's buffer
memory, checks every outcome, and counts only if the topic's end offset equals the records sent.
Runs of different clients alternate, so that a ratio is of one round.

    python benchmarks/compare_clients.py                        all of it: more than an hour
    python benchmarks/compare_clients.py --quick                a glance
    … --brokers kafka --clients kprod confluent-kafka --rounds 1 --json part1.json
    … --merge part1.json part2.json --json race.json --plot race.png --page docs/performance.md

Parts are merged by adding their rounds up; a part's ratios are to the baseline of the same part.

The broker's limit is one encoded batch of 1 MB sent again and again: see `race_limit.py`; how each
client is set up: see `race_clients.py` and `race_java.py`.
"""

import argparse
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import race_brokers
from measure import child_figures
from race_brokers import RaceBroker
from race_clients import CLIENTS, Load
from race_java import JAVA, race_java
from race_table import write_table
from report import Contestant, Report, main
from report_values import Metric

LIMIT = "broker's limit"
NAMES = (LIMIT, *CLIENTS, JAVA)
SECONDS = 30.0
SECONDS_QUICK = 0.25
WARM_UP_S, WARM_UP_QUICK_S = 10.0, 1.5
BYTES_MIN = 50 * (64 << 20)
ROUNDS = 5
ROUNDS_SLOW = 3
SLOW = {"aiokafka", "kafka-python"}  # below 0.5 M records/s
STRANGERS = {("mock", "kafka-python"), ("mock", JAVA)}
"""These cannot talk: the mock rejects their ApiVersions 3 and more in a form they do not read."""

START_S = 30.0
RATE_MIN = 50_000  # bytes a second; a run that is slower has failed
MIB = 1 << 20


def benchmark(report: Report) -> None:
    """Race before each broker, or put parts together."""
    given = report.options.extra
    if given.child:
        print(json.dumps(_run_child(given)))
        raise SystemExit(0)
    if given.merge:
        for path in given.merge:
            report.merge(path)
    else:
        _race_all(report)
    if given.page:
        write_table(report, given.page)


def _race_all(report: Report) -> None:
    given = report.options.extra
    for name in given.brokers:
        with race_brokers.running(name, given.kafka if name == "kafka" else None) as broker:
            _warm_up(report, broker)
            _race(report, broker)


def _warm_up(report: Report, broker: RaceBroker) -> None:
    """Let a broker in Java compile what it needs, at nobody's expense."""
    if broker.name == "kafka":
        _measure(report, broker, LIMIT, seconds=report.pick(WARM_UP_S, WARM_UP_QUICK_S))


def _race(report: Report, broker: RaceBroker) -> None:
    given = report.options.extra
    names = [name for name in given.clients if (broker.name, name) not in STRANGERS]
    contestants = [
        Contestant(
            name,
            partial(_measure, report, broker, name),
            rounds=ROUNDS_SLOW if name in SLOW else None,
            baseline=_baseline(name, names),
        )
        for name in names
    ]
    metrics = [
        Metric(f"{broker.name}: rate", "records/s"),
        Metric(f"{broker.name}: CPU per record", "us", more_is_better=False),
        Metric(f"{broker.name}: peak memory", "MiB", more_is_better=False),
    ]
    rows = report.compare(contestants, metric=metrics, rounds=report.pick(ROUNDS, 1))
    rates = {row.series: row.samples for row in rows if row.metric == metrics[0].name}
    if LIMIT in rates:
        share = Metric(f"{broker.name}: share of the broker's limit", "%")
        for name in names:
            pairs = zip(rates[name], rates[LIMIT], strict=False)  # slow clients have fewer rounds
            report.add(share, name, [100 * rate / limit for rate, limit in pairs])


def _baseline(name: str, names: list[str]) -> str | None:
    wanted = "confluent-kafka, callbacks" if name.endswith(", callbacks") else "confluent-kafka"
    return wanted if wanted in names else None


def _measure(
    report: Report, broker: RaceBroker, name: str, *, seconds: float | None = None
) -> Mapping[str, float]:
    """One run; counted only if the broker has every record once."""
    given = report.options.extra
    bytes_min = given.bytes if given.bytes is not None else report.pick(BYTES_MIN, 0)
    if seconds is not None:
        bytes_min = 0
    seconds = seconds or given.seconds or report.pick(SECONDS, SECONDS_QUICK)
    with broker.topic(name) as topic:
        if name == JAVA:
            figures = race_java(broker.address, topic, seconds)
        else:
            figures = child_figures(
                [
                    __file__,
                    *("--child", name, "--kafka", broker.address, "--topic", topic),
                    *("--seconds", str(seconds), "--bytes", str(bytes_min)),
                ],
                timeout_s=START_S + seconds * 4 + bytes_min / RATE_MIN,
            )
        end_offset = broker.end_offset(topic)
    if not math.isclose(end_offset, figures["offset"], abs_tol=0.5):
        raise RuntimeError(
            f"{name} sent {figures['offset']:,.0f} records, {broker.name} has {end_offset:,}"
        )
    return {
        f"{broker.name}: rate": figures["count"] / figures["elapsed_s"],
        f"{broker.name}: CPU per record": figures["cpu_s"] * 1e6 / figures["count"],
        f"{broker.name}: peak memory": figures["peak_bytes"] / MIB,
    }


def _run_child(given: argparse.Namespace) -> Mapping[str, float]:
    load = Load(given.kafka, given.topic, given.seconds, given.bytes)
    if given.child == LIMIT:
        from race_limit import replay  # noqa: PLC0415 - kprod, which its peers do without

        replay(load)
    else:
        CLIENTS[given.child](load)
    return load.figures()


def _plot(report: Report, path: Path) -> None:
    from race_plot import bars_of_rows, draw_bars  # noqa: PLC0415 - matplotlib takes a second

    draw_bars(report.title, list(bars_of_rows(report.rows)), path)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clients", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument(
        "--brokers", nargs="+", choices=race_brokers.NAMES, default=race_brokers.NAMES
    )
    parser.add_argument("--seconds", type=float, help="of each run; 30 by default")
    parser.add_argument("--bytes", type=int, help="least bytes of each run")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="an Apache Kafka that runs")
    parser.add_argument(
        "--merge", nargs="+", type=Path, metavar="JSON", help="only put parts together"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables there")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)


if __name__ == "__main__":
    main(
        "Kafka producers, sustained, values of 100 bytes",
        benchmark,
        arguments=_arguments,
        plot=_plot,
    )
