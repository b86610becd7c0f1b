"""Rows per second from a query into Apache Kafka, and what they cost the whole machine.

One session, `local[2]`, reads the same Parquet files and writes them by kprod and by Spark's own
Kafka sink in turn, which is tuned: linger 20 ms, batches of 1 MB. Four shapes of rows: a key of 16
bytes and a value of 100; the same with two headers; JSON of 8 columns, by `value.format=json` and
by `to_json`; and values of 1 KB. `--peers` adds confluent-kafka called in `mapInArrow`, and `noop`,
which is what the query itself costs. CPU is that of all processes of the race: driver, Java,
workers and broker; others on the machine do not count.

Each shape has a gate: the least ratio of rates and the greatest of CPU. The JSON shape's is 0.9 of
what JSON that was made before reaches through kprod, from 1.1 to 1.3. `--gate` fails below a gate.

A long race may be run in parts, one shape each, and put together:

    python benchmarks/spark.py --shape json --json part3.json
    python benchmarks/spark.py --merge part1.json … --gate --plot docs/plots/spark.png

Every write costs CPU beside its rows, which PySpark's workers spend when a task begins and ends:
with PySpark 4.1 on Python before 3.13 they read the directories of their archives again, from which
kprod spares them after the first. So the rows are many. `TMPDIR` is where the broker's log is: on a
disk that is slower than the sinks, the disk decides.

It needs Java, and Maven the first time.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from report import Contestant, Report, main
from report_values import Metric

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 6
WARM_ROUNDS = 5  # after two, Java's compiler still took a tenth of the processors
OURS, THEIRS, PRECOMPUTED = "kprod", "Spark's own sink", "kprod, JSON made before"
RATE = Metric("rate", "rows/s")
COST = Metric("CPU", "s per million rows", more_is_better=False)
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    # As the docs advise: no check of a batch's bytes for each row, which is a walk over columns.
    # These two concern only the way to Python.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.python.unix.domain.socket.enabled": "true",
}
# As the docs advise: Arrow batches of 1 to 2 MB, which stay in a processor's cache. It, too,
# concerns only the way to Python.
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
# A deleted topic's log gives its memory to the next write's. By default it stays for a minute, and
# ten of 1 GB each are more than many a machine has.
BROKER_SETTINGS = {"log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "0"}
TUNED = {"linger.ms": "20", "batch.size": "1000000"}
KEY = "cast(lpad(cast(id as string), 16, '0') as binary) as key"
VALUE = "cast(substr(sha2(cast(id as string), 512), 1, 100) as binary) as value"
HEADERS = """array(
  named_struct('key', 'source', 'value', cast('orders' as binary)),
  named_struct('key', 'trace', 'value', cast(lpad(cast(id as string), 16, '0') as binary))
) as headers"""
KILOBYTE = (
    "cast(concat(sha2(cast(id as string), 512), repeat(md5(cast(id as string)), 28)) as binary)"
    " as value"
)
JSON_COLUMNS = (
    "id as order_id",
    "concat('customer-', id % 10007) as customer",
    "cast(id * 7 % 100000 / 100 as decimal(10,2)) as price",
    "id % 1000 / 8 as weight",
    "cast(id % 50 as int) as quantity",
    "id % 3 = 0 as is_express",
    "timestamp_millis(1700000000000 + id) as placed_at",
    "array(concat('tag', id % 5), concat('tag', id % 7)) as tags",
)

_Sink = Callable[["DataFrame", str, str], None]


class Shape(NamedTuple):
    """Rows of one kind, and kprod's options for them.

    Attributes:
        columns: Columns of the Parquet file, as expressions of `id`.
        share: Share of the race's rows; larger rows are fewer.
        least_rate: Least ratio of rates; None where it follows from `PRECOMPUTED`.
        most_cost: Greatest ratio of CPU.
        arrow_rows: Rows of an Arrow batch; Spark's default where it makes 1 to 2 MB.
    """

    columns: Sequence[str]
    share: float
    least_rate: float | None
    most_cost: float
    arrow_rows: int = 10_000


SHAPES = {
    "key and value": Shape((KEY, VALUE), 1.0, 1.3, 0.8),
    "two headers": Shape((KEY, VALUE, HEADERS), 1.0, 1.2, 0.9),
    "json": Shape((KEY, *JSON_COLUMNS), 0.5, None, 0.9),
    "1 KB": Shape((KEY, KILOBYTE), 0.25, 1.2, 0.9, arrow_rows=2_000),
}
JSON_SHAPE = "json"
JSON_SHARE, JSON_LEAST, JSON_MOST = 0.9, 1.1, 1.3


def benchmark(report: Report) -> None:
    """Rate and cost of every sink with every shape."""
    extra = report.options.extra
    if extra.merge:
        for part in extra.merge:
            report.merge(part)
    else:
        rows = extra.rows or report.pick(4_000_000, 200_000)
        with _surroundings() as (spark, servers), tempfile.TemporaryDirectory() as directory:
            for name in extra.shape or SHAPES:
                shape = SHAPES[name]
                table, count = str(Path(directory) / name), int(rows * shape.share)
                spark.range(0, count, 1, 2).selectExpr(*shape.columns).write.parquet(table)
                spark.conf.set(ARROW_ROWS, shape.arrow_rows)
                race = Race(spark, servers, name, table, count)
                race.run(report, _sinks(name, with_peers=extra.peers))
    _judge(report, fails=extra.gate)


def _sinks(shape: str, *, with_peers: bool) -> dict[str, _Sink]:
    if shape == JSON_SHAPE:
        return {OURS: _kprod_json, THEIRS: _own_json, PRECOMPUTED: _kprod}
    peers = {"confluent-kafka in mapInArrow": _confluent, "noop": _noop} if with_peers else {}
    return {OURS: _kprod, THEIRS: _own, **peers}


class Race(NamedTuple):
    """One shape's sinks in turn.

    Attributes:
        spark: The session.
        servers: The broker's address.
        shape: Its name.
        table: Parquet files of its rows.
        row_count: Number of those rows.
    """

    spark: "SparkSession"
    servers: str
    shape: str
    table: str
    row_count: int

    def run(self, report: Report, sinks: Mapping[str, _Sink]) -> None:
        """Warm every sink, then compare them."""
        if PRECOMPUTED in sinks:
            self.spark.read.parquet(self.table).selectExpr(
                "key", f"to_json(struct({_json_names()})) as value"
            ).write.parquet(self._texts)
        contestants = list(starmap(self._contestant, sinks.items()))
        for each in contestants * WARM_ROUNDS:
            each.measure()  # Java compiles what runs often; workers start
        baseline = f"{self.shape}: {THEIRS}"
        report.compare(contestants, metric=(RATE, COST), baseline=baseline, rounds=5)

    @property
    def _texts(self) -> str:
        return f"{self.table} as JSON"

    def _contestant(self, name: str, sink: _Sink) -> Contestant:
        table = self._texts if name == PRECOMPUTED else self.table

        def measure() -> Mapping[str, float]:
            with _topic(self.servers) as topic:
                cpu, began = _busy_s(), time.perf_counter()
                sink(self.spark.read.parquet(table), self.servers, topic)
                elapsed, used = time.perf_counter() - began, _busy_s() - cpu
            return {RATE.name: self.row_count / elapsed, COST.name: used / self.row_count * 1e6}

        return Contestant(f"{self.shape}: {name}", measure)


def _judge(report: Report, *, fails: bool) -> None:
    """Print each shape's ratios beside its gates."""
    ratios = {(row.series, row.metric): row.ratios for row in report.rows}
    is_missed = False
    for name, shape in SHAPES.items():
        ours = f"{name}: {OURS}"
        if (ours, RATE.name) not in ratios:
            continue
        rate, cost = (statistics.median(ratios[ours, metric.name]) for metric in (RATE, COST))
        least = shape.least_rate
        if least is None:
            before = statistics.median(ratios[f"{name}: {PRECOMPUTED}", RATE.name])
            least = max(JSON_LEAST, min(JSON_MOST, JSON_SHARE * before))
        is_met = rate >= least and cost <= shape.most_cost
        is_missed |= not is_met
        report.console.print(
            f"{name}: rate {rate:.2f} × (gate {least:.2f}), CPU {cost:.2f} ×"
            f" (gate {shape.most_cost:.2f}): {'met' if is_met else 'MISSED'}"
        )
    if is_missed and fails:
        report.fault = "a gate was missed"


def _kprod(rows: "DataFrame", servers: str, topic: str) -> None:
    _save(rows, {"bootstrap.servers": servers, "topic": topic})


def _kprod_json(rows: "DataFrame", servers: str, topic: str) -> None:
    _save(rows, {"bootstrap.servers": servers, "topic": topic, "value.format": "json"})


def _save(rows: "DataFrame", options: Mapping[str, str]) -> None:
    rows.write.format("kprod").options(**options).mode("append").save()


def _own(rows: "DataFrame", servers: str, topic: str) -> None:
    options = {f"kafka.{name}": value for name, value in TUNED.items()}
    options |= {"kafka.bootstrap.servers": servers, "topic": topic, "includeHeaders": "true"}
    rows.write.format("kafka").options(**options).mode("append").save()


def _own_json(rows: "DataFrame", servers: str, topic: str) -> None:
    _own(rows.selectExpr("key", f"to_json(struct({_json_names()})) as value"), servers, topic)


def _json_names() -> str:
    return ", ".join(column.rpartition(" as ")[2] for column in JSON_COLUMNS)


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
    # An installed package has its bytecode; here workers would compile every module at their start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
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
    with KafkaNodes(found, settings=BROKER_SETTINGS, java_flags=STRONG_JAVA) as nodes:
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark, nodes.bootstrap_servers
        finally:
            spark.stop()


@contextlib.contextmanager
def _topic(servers: str) -> Generator[str]:
    """A topic of its own for each write, so that none is slower for the records before."""
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
    """Seconds of CPU of this process and of all that it started, ended ones included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            # Its own, and that of children that it has waited for: user and system of each.
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    own = sum(count for pid, count in ticks.items() if _is_ours(pid, parents))
    return own / os.sysconf("SC_CLK_TCK")


def _is_ours(pid: int, parents: Mapping[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="how many of the smallest; larger ones are fewer")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="may be given again")
    parser.add_argument("--peers", action="store_true", help="confluent-kafka and noop, too")
    parser.add_argument("--gate", action="store_true", help="fail where a gate is missed")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="JSON", help="put parts together")


if __name__ == "__main__":
    main("Spark to Apache Kafka", benchmark, arguments=_arguments)
