"""Real work: JSON values, keys, partitions and codecs, beside confluent-kafka and Java in turn.

Each run is a process of its own against one broker, a librdkafka mock cluster unless another is
named, and counts only if the end offsets sum up to the records sent. Runs of the clients alternate,
so that a ratio is of one round. Java's tool (`race_java.py`) has no keys and does not understand
the mock cluster: it takes part in shapes without keys at the other brokers, and ratios are to it
then. The second part is kprod's alone: how much of the sender's work is hidden behind the caller's,
and its rate as a share of the codec's own speed (`hidden_share.py`).

    python benchmarks/real_work.py                              JSON of 330 B, 1,000 keys, 12
                                                                partitions, each codec: 40 minutes
    python benchmarks/real_work.py --quick                      a glance
    … --clients kprod "kprod, send_many" "kprod, asyncio"   its ways to send, ratios to the first
    … --broker kafka --keys 0 --codecs none lz4 zstd --seconds 5 --rounds 3 --peers-only
    … --values 100 1000 --keys 0 1000000 --partitions 1 1000 --codecs none lz4
    … --peers-only | --shares-only

Source: performance goal G12.
"""

import argparse
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import race_brokers
from measure import child_figures
from race_brokers import RaceBroker
from race_java import JAVA, JavaLoad, race_java
from real_work_clients import CLIENTS
from real_work_shapes import Shape
from real_work_ways import WAYS
from report import Contestant, Report, main
from report_values import Metric

PEER = "confluent-kafka"
CODECS = ("none", "lz4", "zstd", "snappy", "gzip")
RACERS = (*CLIENTS, JAVA)
RUNS = {**CLIENTS, **WAYS}
NAMES = (*RACERS, *WAYS)
SECONDS, SECONDS_QUICK = 30.0, 0.5
WARM_UP_S, WARM_UP_QUICK_S = 5.0, 0.5
SHARE_SECONDS, SHARE_SECONDS_QUICK = 5.0, 0.3
ROUNDS = 5
START_S = 60.0
SHARES = {"caller alone": "caller_ns", "sender alone": "sender_ns", "together": "together_ns"}


@dataclass(frozen=True, slots=True)
class Run:
    """One client's run, in a process of its own.

    Attributes:
        name: One of `RUNS`; another word measures the hidden share.
        address: Address of the broker.
        topic: Exists and is empty.
        shape: The records to send.
        seconds: Least time of sending.
    """

    name: str
    address: str
    topic: str
    shape: Shape
    seconds: float

    def command(self) -> list[str]:
        """Return the arguments of the interpreter that runs it; it prints the figures as JSON."""
        shape = self.shape
        return [
            __file__,
            *("--child", self.name, "--address", self.address, "--topic", self.topic),
            *("--values", str(shape.value_bytes), "--keys", str(shape.keys)),
            *("--partitions", str(shape.partitions), "--codecs", shape.codec),
            *("--seconds", str(self.seconds)),
        ]


def benchmark(report: Report) -> None:
    """Race on each shape, then measure kprod's hidden share on each."""
    given = report.options.extra
    if given.child:
        print(json.dumps(_run_child(given)))
        raise SystemExit(0)
    numbers = itertools.product(given.values, given.keys, given.partitions, given.codecs)
    shapes = list(itertools.starmap(Shape, numbers))
    with race_brokers.running(given.broker, given.kafka) as broker:
        for shape in shapes if not given.shares_only else ():
            _race(report, broker, shape)
        for shape in shapes if not given.peers_only else ():
            _share(report, broker, shape)


def _race(report: Report, broker: RaceBroker, shape: Shape) -> None:
    seconds = report.options.extra.seconds or report.pick(SECONDS, SECONDS_QUICK)
    metrics = [
        Metric(f"{shape.label}: rate", "records/s"),
        Metric(f"{shape.label}: CPU per record", "us", more_is_better=False),
    ]
    names = contestants_of(report.options.extra.clients, broker.name, shape)
    contestants = [
        Contestant(name, partial(_measure, broker, shape, name, seconds)) for name in names
    ]
    if broker.name == "kafka":  # Java compiles what it needs for this shape, at nobody's expense
        _measure(broker, shape, PEER, report.pick(WARM_UP_S, WARM_UP_QUICK_S))
    baseline = next((name for name in (JAVA, PEER, "kprod") if name in names), None)
    report.compare(contestants, metric=metrics, baseline=baseline, rounds=report.pick(ROUNDS, 1))


def contestants_of(wanted: Sequence[str], broker: str, shape: Shape) -> list[str]:
    """Leave out the clients that cannot do the work.

    Args:
        wanted: Some of `NAMES`.
        broker: One of `race_brokers.NAMES`.
        shape: The records to send.

    Returns:
        The others; Java's tool only where records have no key and the broker understands it.
    """
    java_can = not shape.keys and broker != "mock"
    return [name for name in wanted if name != JAVA or java_can]


def _share(report: Report, broker: RaceBroker, shape: Shape) -> None:
    seconds = report.pick(SHARE_SECONDS, SHARE_SECONDS_QUICK)
    rounds = []
    for _ in range(report.options.rounds or report.pick(ROUNDS, 1)):
        with broker.topic("share", shape.partitions) as topic:
            rounds.append(_child(Run("share", broker.address, topic, shape, seconds)))
    time_each = Metric(f"{shape.label}: time", "ns per record", more_is_better=False)
    for series, name in SHARES.items():
        report.add(time_each, series, [figures[name] for figures in rounds])
    share = Metric(f"{shape.label}: hidden share", "of the shorter time")
    report.add(share, "kprod", [figures["hidden_share"] for figures in rounds])
    if shape.codec != "none":
        report.add(time_each, "codec alone", [figures["codec_ns"] for figures in rounds])
        own_speed = Metric(f"{shape.label}: share of the codec's own speed", "")
        shares = [figures["codec_ns"] / figures["together_ns"] for figures in rounds]
        report.add(own_speed, "kprod", shares)


def _measure(broker: RaceBroker, shape: Shape, name: str, seconds: float) -> Mapping[str, float]:
    """One run; counted only if the broker has every record once."""
    with broker.topic(name, shape.partitions) as topic:
        if name == JAVA:
            load = JavaLoad(shape.values(), shape.codec)
            figures = race_java(broker.address, topic, seconds, load)
        else:
            figures = _child(Run(name, broker.address, topic, shape, seconds))
        end_offset = broker.end_offset(topic, shape.partitions)
    if not math.isclose(end_offset, figures["offset"], abs_tol=0.5):
        raise RuntimeError(
            f"{name} sent {figures['offset']:,.0f} records, the broker has {end_offset:,}"
        )
    return {
        f"{shape.label}: rate": figures["count"] / figures["elapsed_s"],
        f"{shape.label}: CPU per record": figures["cpu_s"] * 1e6 / figures["count"],
    }


def _child(run: Run) -> Mapping[str, float]:
    return child_figures(run.command(), timeout_s=START_S + 20 * run.seconds)


def _run_child(given: argparse.Namespace) -> Mapping[str, float]:
    shape = Shape(given.values[0], given.keys[0], given.partitions[0], given.codecs[0])
    if given.child in RUNS:
        return RUNS[given.child](given.address, given.topic, shape, given.seconds)
    from hidden_share import measure_shares  # noqa: PLC0415 - kprod, which its peers do without

    return measure_shares(given.address, given.topic, shape, given.seconds)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker", choices=race_brokers.NAMES, default="mock")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="an Apache Kafka that runs")
    parser.add_argument("--clients", nargs="+", choices=NAMES, default=RACERS)
    parser.add_argument("--values", nargs="+", type=int, default=[330], metavar="BYTES")
    parser.add_argument(
        "--keys", nargs="+", type=int, default=[1_000], help="0: records without key"
    )
    parser.add_argument("--partitions", nargs="+", type=int, default=[12])
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=CODECS)
    parser.add_argument("--seconds", type=float, help="of each run; 30 by default")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--peers-only", action="store_true", help="no hidden share")
    parts.add_argument("--shares-only", action="store_true", help="no peer")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)


if __name__ == "__main__":
    main("Real work: JSON, keys, partitions, codecs", benchmark, arguments=_arguments)
