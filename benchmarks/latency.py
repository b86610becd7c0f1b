"""One record at a time, linger 0, against Apache Kafka: kprod beside confluent-kafka.

Each record is sent when the one before is acknowledged (acks=all, idempotent), so a figure is a
round trip with all that a client adds to it. Each round runs in a process of its own; rounds of the
two alternate, against the same broker, which each of them has warmed up before.

    python benchmarks/latency.py                    starts an Apache Kafka (Java, Maven)
    python benchmarks/latency.py --kafka HOST:PORT  uses one that runs
"""

import argparse
import contextlib
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

from measure import child_figures
from report import Contestant, Report, main
from report_values import Metric

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "latency"
VALUE = b"v" * 100
WARM_UP = 500  # records, of each client
# Rounds that do not count. The two ask in other versions of Produce, and a broker that was started
# just now takes some ten thousand requests of each until the JVM has compiled its way through them.
BROKER_WARM_UPS = 2
METRICS = [
    Metric("p50", "us", more_is_better=False),
    Metric("p99", "us", more_is_better=False),
    Metric("client CPU", "us/record", more_is_better=False),
]


def benchmark(report: Report) -> None:
    """p50 and p99 of both, and what the client's process spends on a record."""
    given = report.options.extra
    if given.child:
        print(json.dumps(_measured(given.child, given.kafka, given.count)))
        raise SystemExit(0)
    count = report.pick(10_000, 1_000)
    with kafka_with(TOPIC, given.kafka) as address:

        def contestant(name: str) -> Contestant:
            command = [__file__, "--child", name, "--kafka", address, "--count", str(count)]
            return Contestant(name, lambda: child_figures(command, timeout_s=300))

        contestants = [contestant("kprod"), contestant("confluent-kafka")]
        with report.progress(BROKER_WARM_UPS * len(contestants)) as advance:
            for done, each in itertools.product(range(BROKER_WARM_UPS), contestants):
                advance(f"warming the broker up with {each.name}, {done + 1} of {BROKER_WARM_UPS}")
                each.measure()
        report.compare(
            contestants,
            metric=METRICS,
            baseline="confluent-kafka",
        )


def _measured(client: str, address: str, count: int) -> Mapping[str, float]:
    with SENDERS[client]({"bootstrap.servers": address}, TOPIC) as send_one:
        for _ in range(WARM_UP):
            send_one()
        taken_ns = []
        cpu_began_s = time.process_time()
        for _ in range(count):
            began_ns = time.perf_counter_ns()
            send_one()
            taken_ns.append(time.perf_counter_ns() - began_ns)
        cpu_s = time.process_time() - cpu_began_s
    hundredths = statistics.quantiles(taken_ns, n=100)
    return {
        "p50": hundredths[49] / 1_000,
        "p99": hundredths[98] / 1_000,
        "client CPU": cpu_s * 1e6 / count,
    }


@contextlib.contextmanager
def _kprod(settings: Mapping[str, str], topic: str) -> Generator[Callable[[], object]]:
    import kprod  # noqa: PLC0415 - each child has one client only

    with kprod.Producer(settings, linger_ms=0) as producer:
        yield lambda: producer.send(topic, VALUE, partition=0).result()


@contextlib.contextmanager
def _confluent(settings: Mapping[str, str], topic: str) -> Generator[Callable[[], object]]:
    import confluent_kafka  # noqa: PLC0415 - as above

    producer = confluent_kafka.Producer({**settings, "linger.ms": 0, "enable.idempotence": True})
    errors: list[object] = []

    def send_one() -> None:
        errors.clear()
        producer.produce(
            topic, VALUE, partition=0, on_delivery=lambda error, _: errors.append(error)
        )
        while not errors:
            producer.poll(1)
        if errors != [None]:
            raise RuntimeError(errors)

    try:
        yield send_one
    finally:
        producer.flush()


SENDERS = {"kprod": _kprod, "confluent-kafka": _confluent}
"""By client: open it with settings and a topic; gives a function that sends one record."""


@contextlib.contextmanager
def kafka_with(
    topic: str, address: str | None, settings: Mapping[str, str] | None = None
) -> Generator[str]:
    """A broker with a topic of one partition.

    Args:
        topic: The topic, which is made.
        address: The `host:port` of a broker that runs; None starts one.
        settings: The topic's settings.

    Yields:
        The broker's address.

    Raises:
        SystemExit: Apache Kafka cannot be started here.
    """
    sys.path.insert(0, str(ROOT))
    from tests.plugins import kafka_wire  # noqa: PLC0415 - of the source tree
    from tests.plugins.kafka import artifacts_or_reason  # noqa: PLC0415
    from tests.plugins.kafka_nodes import KafkaNodes  # noqa: PLC0415
    from tests.plugins.kafka_settings import STRONG_JAVA  # noqa: PLC0415

    if address is not None:
        kafka_wire.create_topic(
            address, topic, partitions=1, replication=1, settings=settings or {}, timeout_s=30
        )
        yield address
        return
    found = artifacts_or_reason()
    if isinstance(found, str):
        raise SystemExit(found)
    with KafkaNodes(found, java_flags=STRONG_JAVA) as nodes:
        nodes.create_topic(topic, settings=settings)
        yield nodes.bootstrap_servers


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker that runs")
    parser.add_argument("--child", choices=("kprod", "confluent-kafka"), help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=1_000, help=argparse.SUPPRESS)


if __name__ == "__main__":
    main("Latency of one record at a time", benchmark, arguments=_arguments)
