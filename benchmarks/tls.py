"""TLS against Apache Kafka: kprod beside confluent-kafka, and beside itself without TLS.

Each run is a process of its own: records of 100 bytes with acks=all, idempotent, for some seconds,
by the loops and settings of `kprod perf`; or one record at a time. Runs alternate, against the same
broker, which all of them have warmed up before. Each has a topic of its own, which is deleted
afterwards: a run writes up to 3 GB.

    python benchmarks/tls.py --json tls.json --plot docs/plots/tls.png      starts an Apache Kafka
    python benchmarks/tls.py --quick                                        a glance

Each ratio has a gate; `--gate` fails where one is missed.
"""

import argparse
import contextlib
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from latency import SENDERS
from measure import child_figures
from race_brokers import ANSWER_S, KAFKA_TOPIC
from report import Contestant, Report, main
from report_values import Metric

ROOT = Path(__file__).resolve().parent.parent
VALUE = b"v" * 100
SECONDS, SECONDS_QUICK = 8.0, 0.4
WARM_UP_SECONDS = 5.0
BLOCK = 10_000
LONE_RECORDS, LONE_RECORDS_QUICK = 4_000, 300
LONE_WARM_UP = 300
TIMEOUT_S = 120.0

KPROD, CONFLUENT, PLAIN, BUSY = "kprod", "confluent-kafka", "kprod, no TLS", "kprod, busy thread"
RATE = Metric("rate", "records/s")
CPU = Metric("CPU per record", "us", more_is_better=False)
P50 = Metric("one record: p50", "us", more_is_better=False)
P99 = Metric("one record: p99", "us", more_is_better=False)


@dataclass(frozen=True, slots=True)
class Gate:
    """A ratio of two contestants, and its limit.

    Attributes:
        metric: The quantity.
        of: The contestant.
        to: The one that it is compared with.
        limit: The least ratio of a rate, and the greatest of a cost; None only shows the ratio.
    """

    metric: Metric
    of: str
    to: str
    limit: float | None


GATES = (
    Gate(RATE, KPROD, CONFLUENT, 2.0),
    Gate(CPU, KPROD, CONFLUENT, 0.25),
    Gate(RATE, KPROD, PLAIN, 0.55),
    Gate(RATE, BUSY, PLAIN, 0.1),
    Gate(P50, KPROD, CONFLUENT, 1.3),
    Gate(P99, KPROD, CONFLUENT, None),
)


def benchmark(report: Report) -> None:
    """Rates and costs of all, and round trips of both clients over TLS."""
    given = report.options.extra
    if given.child:
        job = json.loads(given.child)
        print(json.dumps(_lone(job) if job["records"] else _sustained(job)))
        raise SystemExit(0)
    if given.merge:
        for path in given.merge:
            report.merge(path)
    else:
        _race(report)
    _judge(report, fails=given.gate)


def _race(report: Report) -> None:
    seconds = report.pick(SECONDS, SECONDS_QUICK)
    records = report.pick(LONE_RECORDS, LONE_RECORDS_QUICK)
    with _kafka() as broker:
        runs = {name: broker.job(name, seconds) for name in (KPROD, CONFLUENT, PLAIN, BUSY)}
        lone = {name: broker.job(name, 0, records) for name in (KPROD, CONFLUENT)}
        for name in (KPROD, CONFLUENT, PLAIN):
            broker.measured(broker.job(name, min(seconds, WARM_UP_SECONDS)))
        report.compare(_contestants(broker, runs), metric=[RATE, CPU], baseline=CONFLUENT)
        report.compare(_contestants(broker, lone), metric=[P50, P99], baseline=CONFLUENT)


def _contestants(broker: "_Broker", jobs: Mapping[str, Mapping[str, Any]]) -> list[Contestant]:
    return [Contestant(name, partial(broker.measured, job)) for name, job in jobs.items()]


def _judge(report: Report, *, fails: bool) -> None:
    """Print each ratio, the median of those of the rounds, beside its gate."""
    is_missed = False
    for gate in GATES:
        ours, theirs = (
            next(
                row.samples
                for row in report.rows
                if (row.metric, row.series) == (gate.metric.name, name)
            )
            for name in (gate.of, gate.to)
        )
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        text = f"{gate.metric.name}: {gate.of} is {ratio:.2f} × {gate.to}"
        if gate.limit is not None:
            is_met = ratio >= gate.limit if gate.metric.more_is_better else ratio <= gate.limit
            is_missed |= not is_met
            text += f" (gate {gate.limit:g}): {'met' if is_met else 'MISSED'}"
        print(text)
    if is_missed and fails:
        report.fault = "a gate was missed"


# In a process of its own.


def _sustained(job: Mapping[str, Any]) -> Mapping[str, float]:
    from kprod.clock import SystemClock  # noqa: PLC0415 - of the child
    from kprod.perf.client_loops import LOOPS, Target  # noqa: PLC0415
    from kprod.perf.pace import FullSpeed  # noqa: PLC0415
    from kprod.perf.payloads import Payloads  # noqa: PLC0415
    from kprod.perf.perf_run import Goal, PerfRun  # noqa: PLC0415

    clock = SystemClock()
    goal = Goal(seconds=job["seconds"], bytes_min=0)
    run = PerfRun(clock, FullSpeed(clock), Payloads([VALUE] * BLOCK), goal)
    with _busy_thread(is_wanted=job["is_busy"]) as busy_cpu_s:
        LOOPS[job["client"]](run, Target(job["topic"], job["settings"], is_primed=True))
        cpu_s = run.figures.cpu_s - busy_cpu_s()
    if run.figures.errors:
        raise RuntimeError(run.figures.errors.most_common(3))
    count = run.figures.sent_count
    return {
        RATE.name: count / (run.figures.elapsed_ns / 1e9),
        CPU.name: cpu_s * 1e6 / count,
    }


@contextlib.contextmanager
def _busy_thread(*, is_wanted: bool) -> Generator[Callable[[], float]]:
    """A thread that computes in Python and waits for nothing; yields its CPU time so far."""
    is_over = threading.Event()
    used_s = 0.0

    def compute() -> None:
        nonlocal used_s
        while not is_over.is_set():
            sum(range(10_000))
            used_s = time.thread_time()

    thread = threading.Thread(target=compute, daemon=True)
    if is_wanted:
        thread.start()
    try:
        yield lambda: used_s
    finally:
        is_over.set()
        if is_wanted:
            thread.join()


def _lone(job: Mapping[str, Any]) -> Mapping[str, float]:
    taken_ns = []
    with SENDERS[job["client"]](job["settings"], job["topic"]) as send_one:
        for _ in range(LONE_WARM_UP):
            send_one()
        for _ in range(job["records"]):
            began_ns = time.perf_counter_ns()
            send_one()
            taken_ns.append(time.perf_counter_ns() - began_ns)
    hundredths = statistics.quantiles(taken_ns, n=100)
    return {P50.name: hundredths[49] / 1_000, P99.name: hundredths[98] / 1_000}


# The broker.


class _Broker:
    """An Apache Kafka with a TLS listener and one without."""

    def __init__(self, nodes: Any) -> None:  # noqa: ANN401 - of the tests
        self._nodes = nodes
        self._topic_count = 0

    def job(self, name: str, seconds: float, records: int = 0) -> Mapping[str, Any]:
        """Describe a run for a child."""
        settings = {"bootstrap.servers": self._nodes.bootstrap_servers}
        if name != PLAIN:
            settings = {
                "bootstrap.servers": self._nodes.secured_address("SSL"),
                "security.protocol": "SSL",
                "ssl.ca.location": str(self._nodes.directory / "ca.pem"),
            }
        return {
            "client": CONFLUENT if name == CONFLUENT else KPROD,
            "settings": settings,
            "seconds": seconds,
            "records": records,
            "is_busy": name == BUSY,
        }

    def measured(self, job: Mapping[str, Any]) -> Mapping[str, float]:
        """Run a child with a topic of its own.

        Args:
            job: A description that `job` returned.

        Returns:
            Values by the names of metrics.
        """
        from tests.plugins import kafka_wire  # noqa: PLC0415 - of the source tree

        self._topic_count += 1
        topic = self._nodes.create_topic(f"tls-{self._topic_count}", settings=KAFKA_TOPIC)
        load = ["--child", json.dumps({**job, "topic": topic})]
        figures = child_figures([__file__, *load], timeout_s=TIMEOUT_S)
        kafka_wire.delete_topics(self._nodes.bootstrap_servers, [topic], timeout_s=ANSWER_S)
        return figures


@contextlib.contextmanager
def _kafka() -> Generator[_Broker]:
    sys.path.insert(0, str(ROOT))
    from tests.plugins.kafka import artifacts_or_reason  # noqa: PLC0415 - of the source tree
    from tests.plugins.kafka_secured import SecuredKafka  # noqa: PLC0415
    from tests.plugins.kafka_settings import STRONG_JAVA  # noqa: PLC0415

    found = artifacts_or_reason()
    if isinstance(found, str):
        raise SystemExit(found)
    with SecuredKafka(found, java_flags=STRONG_JAVA) as nodes:
        yield _Broker(nodes)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gate", action="store_true", help="fail where a gate is missed")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="JSON", help="put parts together")
    parser.add_argument("--child", help=argparse.SUPPRESS)


if __name__ == "__main__":
    main("TLS, records of 100 bytes", benchmark, arguments=_arguments)
