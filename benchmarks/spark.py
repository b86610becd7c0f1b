"""Rows per second from a query into Apache Kafka, and what they cost the whole machine.

One session, `local[2]`, reads the same Parquet files and writes them by four sinks in turn: kprod,
Spark's own Kafka sink (tuned: linger 20 ms, batches of 1 MB), confluent-kafka called in
`mapInArrow`, and none (`noop`), which is what the query itself costs. CPU is the whole machine's,
with the broker, Java and Python in it.

Run: `python benchmarks/spark.py --plot out/spark.png`. It needs Java, and Maven the first time.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from report import Contestant, Report, main
from report_values import Metric

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 6
OURS, THEIRS = "kprod", "Spark's own sink"
RATE = Metric("rate", "rows/s")
COST = Metric("machine CPU", "s per million rows", more_is_better=False)
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
}
TUNED = {"linger.ms": "20", "batch.size": "1000000"}
ROW = (
    "cast(lpad(cast(id as string), 16, '0') as binary) as key",
    "cast(substr(concat(sha2(cast(id as string), 512), ''), 1, 100) as binary) as value",
)


def benchmark(report: Report) -> None:
    """Rate and cost of every sink."""
    rows = report.options.extra.rows or report.pick(2_000_000, 200_000)
    only = set(report.options.extra.only or ())
    with _surroundings() as (spark, servers), tempfile.TemporaryDirectory() as directory:
        table = str(Path(directory) / "rows")
        spark.range(0, rows, 1, 2).selectExpr(*ROW).write.parquet(table)
        sinks = {
            OURS: _kprod,
            THEIRS: _own,
            "confluent-kafka in mapInArrow": _confluent,
            "noop": _noop,
        }
        sinks = {name: sink for name, sink in sinks.items() if not only or name in only}

        def contestant(name: str, sink: Callable[[Any, str, str], None]) -> Contestant:
            def measure() -> Mapping[str, float]:
                with _topic(servers) as topic:
                    cpu, began = _busy_s(), time.perf_counter()
                    sink(spark.read.parquet(table), servers, topic)
                    elapsed, used = time.perf_counter() - began, _busy_s() - cpu
                return {RATE.name: rows / elapsed, COST.name: used / rows * 1e6}

            return Contestant(name, measure)

        contestants = list(starmap(contestant, sinks.items()))
        for each in contestants:
            each.measure()  # warm: classes compiled, workers started
        baseline = THEIRS if THEIRS in sinks else None
        report.compare(contestants, metric=(RATE, COST), baseline=baseline, rounds=3)


def _kprod(rows: "DataFrame", servers: str, topic: str) -> None:
    options = {"bootstrap.servers": servers, "topic": topic}
    rows.write.format("kprod").options(**options).mode("append").save()


def _own(rows: "DataFrame", servers: str, topic: str) -> None:
    options = {f"kafka.{name}": value for name, value in TUNED.items()}
    options |= {"kafka.bootstrap.servers": servers, "topic": topic}
    rows.write.format("kafka").options(**options).mode("append").save()


def _noop(rows: "DataFrame", servers: str, topic: str) -> None:
    del servers, topic
    rows.write.format("noop").mode("append").save()


def _confluent(rows: "DataFrame", servers: str, topic: str) -> None:
    def produce(batches: Iterable[Any]) -> Iterable[Any]:
        import confluent_kafka  # noqa: PLC0415 - in the worker

        settings = {**TUNED, "bootstrap.servers": servers, "enable.idempotence": True}
        producer = confluent_kafka.Producer({**settings, "queue.buffering.max.messages": 1_000_000})
        for batch in batches:
            pairs = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
            for key, value in pairs:
                try:
                    producer.produce(topic, value, key)
                except BufferError:
                    producer.poll(0.1)
                    producer.produce(topic, value, key)
            producer.poll(0)
        producer.flush()
        yield from ()

    rows.mapInArrow(produce, "n int").write.format("noop").mode("append").save()


@contextlib.contextmanager
def _surroundings() -> Generator[tuple[Any, str]]:
    """A session with Spark's own Kafka sink in it, and a broker."""
    sys.path.insert(0, str(ROOT))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after its path

    from tests.plugins.kafka import artifacts_or_reason  # noqa: PLC0415
    from tests.plugins.kafka_nodes import KafkaNodes  # noqa: PLC0415
    from tests.plugins.kafka_settings import STRONG_JAVA  # noqa: PLC0415
    from tests.plugins.spark_artifacts import spark_kafka_jars  # noqa: PLC0415

    found = artifacts_or_reason()
    if isinstance(found, str):
        raise SystemExit(found)
    builder = SparkSession.builder.master("local[2]").config("spark.jars", spark_kafka_jars())
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with KafkaNodes(found, java_flags=STRONG_JAVA) as nodes:
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark, nodes.bootstrap_servers
        finally:
            spark.stop()


@contextlib.contextmanager
def _topic(servers: str) -> Generator[str]:
    """A topic of its own for each write, so that none is slower for what was before."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    from tests.plugins import kafka_wire  # noqa: PLC0415

    topic = f"rows-{time.monotonic_ns()}"
    kafka_wire.create_topic(
        servers, topic, partitions=PARTITIONS, replication=1, settings={}, timeout_s=30
    )
    try:
        yield topic
    finally:
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics([topic])[topic].result(30)


def _busy_s() -> float:
    """Seconds that all processors have worked since the start of the machine."""
    fields = Path("/proc/stat").read_text("utf-8").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, interrupts, soft = map(int, fields[:7])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="how many")
    parser.add_argument("--only", action="append", help="a sink's name; may be given again")


if __name__ == "__main__":
    main("Spark to Apache Kafka", benchmark, arguments=_arguments)
