"""The time from a call to the log if its caller computes afterwards: kprod and confluent-kafka.

The caller sends one record with linger 0, nothing in flight, and then runs Python code for 12 ms
without a pause. A second Python thread gets the GIL after 5 ms of that at the earliest. The
measured time is from the call to the broker's log, by the log's own timestamps. These are whole
milliseconds, and the middle of one is taken: figures are right to half of one.

    python benchmarks/busy_caller.py                    starts an Apache Kafka (Java, Maven)
    python benchmarks/busy_caller.py --kafka HOST:PORT  uses one that runs
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping

from latency import VALUE, kafka_with
from measure import child_figures
from report import Contestant, Report, main
from report_values import Metric

TOPIC = "busy-caller"
SETTINGS = {"message.timestamp.type": "LogAppendTime"}
WARM_UP = 50  # records
COMPUTES_S = 0.012
METRICS = [
    Metric("p50", "ms", more_is_better=False),
    Metric("p90", "ms", more_is_better=False),
    Metric("send call, p50", "us", more_is_better=False),
]


def benchmark(report: Report) -> None:
    """p50 and p90 of both, and how long the call of `send` takes."""
    given = report.options.extra
    if given.child:
        print(json.dumps(_measured(given.child, given.kafka, given.count)))
        raise SystemExit(0)
    with kafka_with(TOPIC, given.kafka, SETTINGS) as address:

        def contestant(name: str) -> Contestant:
            count = report.pick(500, 100)
            command = [__file__, "--child", name, "--kafka", address, "--count", str(count)]
            return Contestant(name, lambda: child_figures(command, timeout_s=300))

        contestants = [contestant(name) for name in RUNS]
        for each in contestants:
            each.measure()  # warms the broker up
        report.compare(contestants, metric=METRICS, baseline="confluent-kafka")


def _measured(client: str, address: str, count: int) -> Mapping[str, float]:
    left_ms, called_ns = RUNS[client](address, WARM_UP + count)
    tenths = statistics.quantiles(left_ms[WARM_UP:], n=10)
    return {
        "p50": statistics.median(left_ms[WARM_UP:]),
        "p90": tenths[8],
        "send call, p50": statistics.median(called_ns[WARM_UP:]) / 1_000,
    }


def _send_and_compute(send: Callable[[], object], count: int) -> tuple[list[float], list[int]]:
    """Send records, and compute after each.

    Returns:
        The wall-clock times before each call in milliseconds, and the calls' times in nanoseconds.
    """
    sent_ms, called_ns = [], []
    for _ in range(count):
        sent_ms.append(time.time() * 1_000)
        began_ns = time.perf_counter_ns()
        send()
        called_ns.append(time.perf_counter_ns() - began_ns)
        ends_s = time.perf_counter() + COMPUTES_S
        while time.perf_counter() < ends_s:
            pass
    return sent_ms, called_ns


def _kprod(address: str, count: int) -> tuple[list[float], list[int]]:
    import kprod  # noqa: PLC0415 - each child has one client only

    appended_ms: list[int] = []

    def note(metadata: kprod.RecordMetadata | None, error: BaseException | None) -> None:
        if metadata is None:
            raise RuntimeError(error)
        appended_ms.append(metadata.timestamp_ms)

    with kprod.Producer(bootstrap_servers=address, linger_ms=0) as producer:
        producer.send(TOPIC, VALUE, partition=0).result()
        sent_ms, called_ns = _send_and_compute(
            lambda: producer.send(TOPIC, VALUE, partition=0, on_delivery=note), count
        )
    return _differences(sent_ms, appended_ms), called_ns


def _confluent(address: str, count: int) -> tuple[list[float], list[int]]:
    import confluent_kafka  # noqa: PLC0415 - as above

    appended_ms: list[int] = []

    def note(error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            raise RuntimeError(error)
        appended_ms.append(message.timestamp()[1])

    settings = {"bootstrap.servers": address, "linger.ms": 0, "enable.idempotence": True}
    producer = confluent_kafka.Producer(settings)
    producer.produce(TOPIC, VALUE, partition=0)
    producer.flush()
    sent_ms, called_ns = _send_and_compute(
        lambda: producer.produce(TOPIC, VALUE, partition=0, on_delivery=note), count
    )
    producer.flush()
    return _differences(sent_ms, appended_ms), called_ns


def _differences(sent_ms: list[float], appended_ms: list[int]) -> list[float]:
    pairs = zip(sent_ms, appended_ms, strict=True)  # of one partition, so in order
    return [appended + 0.5 - sent for sent, appended in pairs]


RUNS = {"kprod": _kprod, "confluent-kafka": _confluent}
"""By client: sends a number of records; gives times to the log, and times of the calls."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker that runs")
    parser.add_argument("--child", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=500, help=argparse.SUPPRESS)


if __name__ == "__main__":
    main("One record of a caller that computes", benchmark, arguments=_arguments)
