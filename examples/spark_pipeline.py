"""A data pipeline on Spark that ends in Kafka: start here and change it.

    python examples/spark_pipeline.py                           # on brokers inside this process
    python examples/spark_pipeline.py --bootstrap host:9092     # on yours, in topics of its own

Batch: the flights that left New York City in 2013, as Parquet, joined with the weather and the
planes, become JSON records keyed by tail number. Streaming: the same files are dropped into a
directory one by one; a windowed aggregate in update mode writes each airport's delays by day to a
second topic, whose last record for each key is the table. At the end both topics are read back and
held to sums that Spark works out from the Parquet files.

Parts to keep: `write_flights` and `start_delays`. The rest feeds them and checks them.
"""

import argparse
import itertools
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import kprod.spark
from kprod import Consumer
from kprod.broker import EmbeddedCluster
from kprod.cli.flights import FLIGHT_COUNT, find_flights
from kprod.network.topic_admin import create_topic

PARTITIONS = 6
BROKERS = 3
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}


@dataclass(slots=True)
class Pipeline:
    """The objects that all steps need."""

    spark: SparkSession
    servers: str
    home: Path
    flights_topic: str
    delays_topic: str
    rates: list[tuple[str, float]] = field(default_factory=list)

    @property
    def months(self) -> list[Path]:
        """The Parquet files, one for each month."""
        return sorted((self.home / "flights").glob("*.parquet"))

    def rows(self) -> DataFrame:
        """Return every flight."""
        return self.spark.read.parquet(*map(str, self.months))


def write_flights(pipeline: Pipeline) -> int:
    """Join, and write one JSON record per flight: the batch pipeline.

    Returns:
        Number of records in the write's report.
    """
    spark, tables = pipeline.spark, pipeline.home / "tables"
    weather = spark.read.parquet(str(tables / "weather")).select(
        "origin", "time_hour", "temp", "wind_speed", "visib", "precip"
    )
    planes = spark.read.parquet(str(tables / "planes")).select(
        "tailnum", F.col("year").alias("built"), "manufacturer", "model", "seats"
    )
    rows = (
        pipeline.rows()
        .join(F.broadcast(weather), ["origin", "time_hour"], "left")
        .join(F.broadcast(planes), "tailnum", "left")
        .withColumn("key", F.col("tailnum"))
        .withColumn("timestamp", F.col("time_hour"))
    )
    report = pipeline.home / "flights.report"
    (
        rows.write.format("kprod")
        .option("bootstrap.servers", pipeline.servers)
        .option("topic", pipeline.flights_topic)
        .option("value.format", "json")  # every column but key and timestamp
        .option("report.path", str(report))
        .mode("append")
        .save()
    )
    written = kprod.spark.last_write(report)
    return 0 if written is None else written.record_count


def daily_delays(flights: DataFrame) -> DataFrame:
    """Return each airport's departures and their delays by day, as records of a table."""
    by_day = flights.groupBy(F.window("time_hour", "1 day"), "origin").agg(
        F.count("*").alias("departures"),
        F.sum(F.coalesce("dep_delay", F.lit(0))).alias("delay_minutes"),
    )
    day = F.date_format("window.start", "yyyy-MM-dd")
    return by_day.select(
        F.concat_ws("|", "origin", day).alias("key"),
        "origin",
        day.alias("day"),
        "departures",
        "delay_minutes",
    )


def start_delays(pipeline: Pipeline, drop: Path) -> StreamingQuery:
    """Keep the table of delays up to date with the files of a directory: the streaming pipeline.

    Spark offers update mode to built-in sinks only; `foreachBatch` gives it to every other one.

    Args:
        pipeline: With topics that exist.
        drop: Directory that gets the files.

    Returns:
        The running query.
    """
    flights = pipeline.spark.readStream.schema(pipeline.rows().schema).parquet(str(drop))
    options = {
        "bootstrap.servers": pipeline.servers,
        "topic": pipeline.delays_topic,
        "value.format": "json",
    }

    def upsert(batch: DataFrame, batch_id: int) -> None:
        del batch_id
        batch.write.format("kprod").options(**options).mode("append").save()

    return (
        daily_delays(flights.withWatermark("time_hour", "1 day"))
        .writeStream.outputMode("update")
        .foreachBatch(upsert)
        .option("checkpointLocation", str(pipeline.home / "checkpoint"))
        .start()
    )


def make_tables(pipeline: Pipeline) -> None:
    """Turn the package's CSV files into Parquet: a file of flights for each month."""
    source, csv = find_flights().parent, pipeline.home / "csv"
    with zipfile.ZipFile(source / "flights.csv.zip") as archive:
        archive.extractall(csv)
    read = pipeline.spark.read.options(header=True, inferSchema=True, nullValue="NA")
    for name in ("weather", "planes"):
        table = read.csv(str(source / f"{name}.csv"))
        table.coalesce(1).write.parquet(str(pipeline.home / "tables" / name))
    flights = read.csv(str(next(csv.glob("*.csv"))))
    (pipeline.home / "flights").mkdir()
    written = pipeline.home / "by_month"
    flights.withColumn("of_month", F.col("month")).repartition(4, "of_month").write.partitionBy(
        "of_month"
    ).parquet(str(written))
    for part in sorted(written.glob("of_month=*/*.parquet")):
        month = int(part.parent.name.partition("=")[2])
        part.rename(pipeline.home / "flights" / f"{month:02}.parquet")


def drop_files(pipeline: Pipeline, progress: Progress) -> None:
    """Write one file after the other for the streaming query, and wait for each."""
    drop = pipeline.home / "drop"
    drop.mkdir()
    query = start_delays(pipeline, drop)
    try:
        for month in progress.track(pipeline.months, description="streaming, by month"):
            shutil.copy(month, drop / f".{month.name}")
            (drop / f".{month.name}").rename(drop / month.name)  # seen whole or not at all
            began = time.perf_counter()
            query.processAllAvailable()
            elapsed = time.perf_counter() - began
            count = pipeline.spark.read.parquet(str(month)).count()
            pipeline.rates.append((month.stem, count / elapsed))
    finally:
        query.stop()


def read_values(servers: str, topic: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Read a topic back: each record's key and object."""
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        count = sum(consumer.end_offsets(consumer.partitions_for(topic)).values())
        for record in itertools.islice(consumer, count):
            yield (record.key or b"").decode(), json.loads(record.value or b"{}")


def compare(pipeline: Pipeline, progress: Progress) -> list[str]:
    """Hold both topics to sums that Spark works out from the Parquet files.

    Returns:
        The differences; empty if there are none.
    """
    sums = {"count": 0, "distance": 0, "dep_delay": 0, "minute": 0}
    keys_differ = 0
    records = read_values(pipeline.servers, pipeline.flights_topic)
    task = progress.add_task("reading flights back", total=FLIGHT_COUNT)
    for key, flight in records:
        sums["count"] += 1
        for name in ("distance", "dep_delay", "minute"):
            sums[name] += int(str(flight.get(name, 0)))
        keys_differ += key != flight.get("tailnum", "")
        progress.advance(task)
    expected = pipeline.rows().agg(
        F.count("*").alias("count"),
        *(F.sum(name).alias(name) for name in ("distance", "dep_delay", "minute")),
    )
    wanted = expected.collect()[0].asDict()
    differences = [f"flights: {sums} in the topic, {wanted} in Parquet"] * (sums != wanted)
    differences += [f"flights: {keys_differ} keys are not the tail number"] * bool(keys_differ)
    table = dict(read_values(pipeline.servers, pipeline.delays_topic))
    rows = {row["key"]: row.asDict() for row in daily_delays(pipeline.rows()).collect()}
    for row in rows.values():
        del row["key"]
    if table != rows:
        wrong = sum(table.get(key) != row for key, row in rows.items())
        differences.append(f"delays: {wrong} of {len(rows)} days differ")
    return differences


def draw(pipeline: Pipeline, path: Path) -> None:
    """Draw the rate of each step, and each airport's mean delay by month."""
    import matplotlib as mpl  # noqa: PLC0415 - takes a second

    mpl.use("agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415 - after the choice of a canvas

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    names = [name for name, _ in pipeline.rates]
    left.bar(names, [rate / 1_000 for _, rate in pipeline.rates], color="tab:blue")
    left.set(title="Flights taken, by step", ylabel="thousand rows per second")
    left.tick_params(axis="x", rotation=60)
    means = pipeline.rows().groupBy("origin", "month").agg(F.avg("dep_delay").alias("mean"))
    rows = means.orderBy("origin", "month").collect()
    for origin in sorted({row["origin"] for row in rows}):
        points = [(row["month"], row["mean"]) for row in rows if row["origin"] == origin]
        right.plot(*zip(*points, strict=True), marker="o", label=origin)
    right.set(title="Mean delay at departure", xlabel="month of 2013", ylabel="minutes")
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def run(pipeline: Pipeline, console: Console, plot: Path) -> bool:
    """Run every step.

    Returns:
        Whether both topics hold what they should.
    """
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        steps = progress.add_task("tables to Parquet", total=1)
        make_tables(pipeline)
        progress.advance(steps)
        steps = progress.add_task("batch: flights", total=FLIGHT_COUNT)
        began = time.perf_counter()
        count = write_flights(pipeline)
        pipeline.rates.append(("batch", count / (time.perf_counter() - began)))
        progress.advance(steps, count)
        drop_files(pipeline, progress)
        differences = compare(pipeline, progress)
    draw(pipeline, plot)
    for line in differences:
        console.print(f"[red]{line}")
    days = daily_delays(pipeline.rows()).count()
    print(
        f"{count:,} flights in {pipeline.flights_topic}, {days:,} days in {pipeline.delays_topic}"
    )
    print("read back and compared: " + ("NOT equal" if differences else "all equal"))
    print(f"plot in {plot}")
    return not differences


def main() -> int:
    """Run the demonstration.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="by default, brokers of its own")
    parser.add_argument("--plot", type=Path, default=Path("out/spark_pipeline.png"))
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers as this process
    console = Console(stderr=True)
    with ExitStack() as stack:
        mark = secrets.token_hex(4)
        topics = (f"flights-{mark}", f"delays-{mark}")
        servers = given.bootstrap
        if servers is None:
            brokers = EmbeddedCluster(BROKERS, dict.fromkeys(topics, PARTITIONS))
            servers = stack.enter_context(brokers).bootstrap_servers
        else:
            for topic in topics:
                create_topic(servers, topic, PARTITIONS)
        console.print(f"Spark starts; the brokers are at {servers}")
        builder = SparkSession.builder.master(given.master).appName("flights")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return 0 if run(Pipeline(spark, servers, home, *topics), console, given.plot) else 1


if __name__ == "__main__":
    raise SystemExit(main())
