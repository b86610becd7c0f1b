"""The actions of the tests' Spark programs; see `tests.spark.job`."""

import os
import random
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import kprod.spark
from kprod.spark.reports import append_report
from kprod.spark.write_listener import WriteListener
from tests.spark.accidents import interpreter_of, workers_of
from tests.spark.cancelling import cancelled
from tests.spark.faulty import FaultySource
from tests.spark.random_rows import ZONES, random_rows, random_schema

COLUMNS = (
    # A row in 50 is a tombstone; every other has its number in the value, and 96 bytes besides.
    """case when id % 50 <> 7 then
    cast(concat(lpad(cast(id as string), 10, '0'), repeat(md5(cast(id as string)), 3)) as binary)
    end as value""",
    """case when id % 50 = 7 then concat('tombstone-', id)
    when id % 10 <> 0 then cast(id % 1000 as string) end as key""",
    """case when id % 3 = 0 then
    array(named_struct('key', 'number', 'value', cast(cast(id as string) as binary)))
    end as headers""",
    "case when id % 4 = 0 then cast(id % 3 as int) end as partition",
    "case when id % 5 = 0 then timestamp_millis(1700000000000 + id) end as timestamp",
)
"""SQL columns that make every kind of record from numbered rows."""

SUMS = (
    "count(*) as records",
    "count(value) as values",
    "sum(crc32(value)) as value_crc",
    "sum(crc32(cast(key as binary))) as key_crc",
    "sum(crc32(headers[0].value)) as header_crc",
    "sum(case when id % 5 = 0 then unix_millis(timestamp) end) as timestamps",
)
"""Spark's view of the records; `tests.spark.reading` has the topic's."""


def numbered(spark: SparkSession, given: Namespace) -> DataFrame:
    """Return `--rows` rows of all kinds, in 8 partitions."""
    return spark.range(0, given.rows, 1, 8).selectExpr("id", *COLUMNS)


def options_of(given: Namespace, topic: str, **more: str) -> dict[str, str]:
    """Return what every write has; each scene has a topic of its own."""
    of_all = dict(each.split("=", 1) for each in given.option)
    return {"bootstrap.servers": given.servers, "topic": topic, **of_all, **more}


def write(rows: DataFrame, options: Mapping[str, str], source: str = "kprod") -> None:
    """Write a batch."""
    rows.write.format(source).options(**options).mode("append").save()


def save(spark: SparkSession, given: Namespace) -> Any:
    """Write all rows, say their sums and the write's report."""
    rows = numbered(spark, given)
    report = given.out.parent / "writes"
    write(rows, options_of(given, "save", **{"report.path": str(report)}))
    last = kprod.spark.last_write(report)
    sums = rows.selectExpr(*SUMS).collect()[0].asDict()
    return {"sums": sums, "report": None if last is None else last.to_json()}


def registered(spark: SparkSession, given: Namespace) -> Any:
    """The same with a data source that the session was told of, instead of found by its name."""
    kprod.spark.register(spark)
    return save(spark, given)


def topics(spark: SparkSession, given: Namespace) -> Any:
    """Rows choose between two topics, and one has none and is a dead letter."""
    rows = numbered(spark, given).withColumnRenamed("id", "n")
    topic = "case when n = 11 then null when n % 2 = 1 then 'odd' else 'even' end as topic"
    rows = rows.selectExpr("*", topic)
    write(rows, {"bootstrap.servers": given.servers, "on_record_error": "dlq:dead"})
    counts = rows.where("topic is not null").groupBy("topic").count().collect()
    return {row["topic"]: row["count"] for row in counts}


def as_json(spark: SparkSession, given: Namespace) -> Any:
    """The JSON format beside Spark's own function."""
    rows = spark.range(0, 100, 1, 2).selectExpr(
        "cast(id % 7 as string) as key",
        "id",
        "case when id % 3 = 0 then concat('\"', char(id), '\\\\') end as text",
        "cast(id / 8 as double) as number",
        "cast(id as decimal(10,2)) as price",
        "id % 2 = 0 as flag",
        "named_struct('a', id, 'b', case when id % 2 = 0 then array(id, null) end) as nested",
        "map('x', id, 'y', null) as pairs",
        "date_add(date'2013-01-01', cast(id as int)) as day",
        "timestamp_millis(id * 1000 + 5) as at",
    )
    write(rows, options_of(given, "json", **{"value.format": "json"}))
    texts = rows.drop("key").selectExpr("to_json(struct(*)) as text")
    return [row["text"] for row in texts.collect()]


def json_schemas(spark: SparkSession, given: Namespace) -> Any:
    """Rows of random schemas by the JSON format and by Spark's own function, in several zones."""
    found = {}
    for seed in range(given.schemas):
        rng = random.Random(seed)
        schema = random_schema(rng)
        zone = ZONES[seed % len(ZONES)]
        spark.conf.set("spark.sql.session.timeZone", zone)
        rows = spark.createDataFrame(random_rows(rng, schema), schema).coalesce(1)
        write(rows, options_of(given, f"json-{seed}", **{"value.format": "json"}))
        # Spark's own text of a struct goes by its columns' names, which have to be quoted.
        names = ", ".join("`" + name.replace("`", "``") + "`" for name in rows.columns)
        texts = rows.selectExpr(f"to_json(struct({names})) as text").collect()
        found[seed] = {"texts": [row["text"] for row in texts], "types": schema.simpleString()}
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return found


def repeat(spark: SparkSession, given: Namespace) -> Any:
    """The same batch twice with one id, then with another."""
    report = given.out.parent / "repeat"
    rows = spark.range(0, given.rows, 1, 4).selectExpr("cast(id as string) as value")
    for write_id in ("first", "first", "second"):
        own = {"report.path": str(report), "write.id": write_id}
        write(rows, options_of(given, "repeat", **own))
    return [each.to_json() for each in kprod.spark.writes(report)]


def stream(spark: SparkSession, given: Namespace) -> Any:
    """Files to a topic until there are no more; the checkpoint lies beside the results."""
    home = given.out.parent
    if not given.remote:
        told = home / "told"
        listener = WriteListener(home / "batches", lambda each: append_report(told, each))
        spark.streams.addListener(listener)
    rows = (
        spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(given.input)
    ).selectExpr("id", *COLUMNS)
    query = (
        rows.writeStream.format("kprod")
        .options(**options_of(given, "stream", **{"report.path": str(home / "batches")}))
        .option("checkpointLocation", str(home.parent / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [report.to_json() for report in kprod.spark.writes(home / "batches")]


def endless(spark: SparkSession, given: Namespace) -> Any:
    """Numbers to a topic, batch after batch, until a file says that it is enough."""
    home = given.out.parent
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", given.rows)
        .option("numPartitions", 4)
        .load()
        .selectExpr("cast(value as string) as value")
    )
    query = (
        rows.writeStream.format("kprod")
        .options(**options_of(given, "endless", **{"report.path": str(home.parent / "reports")}))
        .option("checkpointLocation", str(home.parent / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )
    while not (home.parent / "enough").exists():
        query.awaitTermination(1)
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
    last = query.lastProgress
    query.stop()
    return None if last is None else last["batchId"]


def where(spark: SparkSession, given: Namespace) -> Any:
    """The environments in which tasks ran, and the driver's; a batch is written from there."""

    def look(_: Any) -> tuple[str, str]:
        return sys.prefix, str(kprod.spark.__file__)

    rows = spark.range(0, given.rows, 1, 2).selectExpr("cast(id as string) as value")
    write(rows, options_of(given, "save"))
    pythons = sorted({interpreter_of(pid) for pid in workers_of(os.getsid(0))})
    found = spark.sparkContext.parallelize(range(2), 2).map(look).collect()
    driver = (sys.prefix, str(kprod.spark.__file__))
    return {"writers": pythons, "tasks": found, "driver": driver}


def for_each_batch(spark: SparkSession, given: Namespace) -> Any:
    """The same, each micro-batch by a batch write."""
    report = given.out.parent / "each"
    options = options_of(given, "each", **{"report.path": str(report)})
    rows = (
        spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(given.input)
    ).selectExpr("id", *COLUMNS)
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: write(batch, options))
        .option("checkpointLocation", str(given.out.parent / "each-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [each.to_json() for each in kprod.spark.writes(report)]


def files(spark: SparkSession, given: Namespace) -> Any:
    """Make the stream's input: 8 files, and the sums of their rows."""
    spark.range(0, given.rows, 1, 8).write.mode("overwrite").parquet(given.input)
    return numbered(spark, given).selectExpr(*SUMS).collect()[0].asDict()


def fault(spark: SparkSession, given: Namespace) -> Any:
    """Write all rows though a task's first attempt meets an accident; their sums and the report."""
    spark.dataSource.register(FaultySource)
    kind, _, after = given.fault.partition("@")
    rows = numbered(spark, given)
    report = given.out.parent / "fault"
    more = {"fault.kind": kind, "fault.after": after or "-1", "fault.partition": "1"}
    own = {**more, "report.path": str(report)}
    write(rows, options_of(given, "fault", **own), "kprod_faulty")
    last = kprod.spark.last_write(report)
    sums = rows.selectExpr(*SUMS).collect()[0].asDict()
    return {"sums": sums, "report": None if last is None else last.to_json()}


def bad_input(spark: SparkSession, given: Namespace) -> Any:
    """Everything that must be rejected, and with what text."""
    found: dict[str, str] = {}

    def attempt(name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the finding itself
            found[name] = f"{type(error).__name__}: {error}"
        else:
            found[name] = ""

    rows = spark.range(3).selectExpr("cast(id as string) as value")
    good = options_of(given, "bad")
    attempt("option", lambda: write(rows, {**good, "linger.mss": "1"}))
    attempt("topic", lambda: write(rows, {"bootstrap.servers": given.servers}))
    attempt("type", lambda: write(rows.selectExpr("1 as value"), good))
    attempt(
        "overwrite", lambda: rows.write.format("kprod").options(**good).mode("overwrite").save()
    )
    attempt("mode", lambda: rows.write.format("kprod").options(**good).save())
    attempt("read", lambda: spark.read.format("kprod").load())
    null_topic = rows.selectExpr("*", "cast(null as string) as topic")
    attempt("null topic", lambda: write(null_topic, {"bootstrap.servers": given.servers}))
    large = rows.selectExpr("repeat('x', 2000000) as value")
    attempt("too large", lambda: write(large, good))
    unreachable = {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": "500"}
    attempt("unreachable", lambda: write(rows, {**good, **unreachable}))
    missing = {"topic": "missing", "allow.auto.create.topics": "false"}
    attempt("missing topic", lambda: write(rows, {**good, **missing}))
    variable = {"bootstrap.servers": "env:KPROD_NOWHERE", "acks": "env:KPROD_ACKS"}
    attempt("nowhere", lambda: write(rows, {**good, **variable}))
    attempt("no variable", lambda: write(rows, {**good, "client.id": "env:KPROD_NOT_SET"}))
    attempt("secret", lambda: write(rows, {**good, "linger.ms": "env:KPROD_CANARY"}))
    credentials = {"kafka.sasl.username": "me", "kafka.sasl.password": "env:KPROD_CANARY"}
    attempt("credentials", lambda: write(rows, {**good, **credentials}))
    attempt("complete", lambda: _complete(spark, given))
    return found


def _complete(spark: SparkSession, given: Namespace) -> None:
    counted = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    rows = counted.groupBy("value").count().selectExpr("cast(value as string) as value")
    query = (
        rows.writeStream.format("kprod")
        .options(**options_of(given, "bad"))
        .option("checkpointLocation", str(given.out.parent / "complete"))
        .outputMode("complete")
        .start()
    )
    query.awaitTermination(60)


POISON = {
    # A row in 1,000 of each kind; together 1 %.
    7: ("topic", "cast(null as string)"),
    107: ("topic", "''"),
    207: ("topic", "'no topic'"),
    307: ("partition", "-1"),
    407: ("partition", "99"),
    507: ("timestamp", "timestamp_millis(-1)"),
    607: (
        "headers",
        "array(named_struct('key', cast(null as string), 'value', cast('h' as binary)))",
    ),
    707: ("headers", "array(cast(null as struct<key:string,value:binary>))"),
    807: ("value", "cast(repeat('x', 1100000) as binary)"),
    907: ("key", "repeat('k', 1100000)"),
}
"""Changed columns by a row's number modulo 1,000."""


def poison(spark: SparkSession, given: Namespace) -> Any:
    """Every kind of bad row among good ones, into a topic for dead letters; the report."""
    plain = {
        "value": "cast(cast(id as string) as binary)",
        "key": "cast(id as string)",
        "topic": "'save'",
        "partition": "cast(null as int)",
        "timestamp": "cast(null as timestamp)",
        "headers": "cast(null as array<struct<key:string,value:binary>>)",
    }
    columns = []
    for role, expression in plain.items():
        cases = "".join(
            f" when id % 1000 = {number} then {changed}"
            for number, (column, changed) in POISON.items()
            if column == role
        )
        columns.append(f"case{cases} else {expression} end as {role}")
    rows = spark.range(0, given.rows, 1, 8).selectExpr(*columns)
    report = given.out.parent / "poison"
    own = {"on_record_error": "dlq:dead", "report.path": str(report), "max_bad_ratio": "0.011"}
    write(rows, {"bootstrap.servers": given.servers, **own})
    last = kprod.spark.last_write(report)
    return None if last is None else last.to_json()


def logs(spark: SparkSession, given: Namespace) -> Any:
    """The line that commit logged, if Spark collects its workers' lines."""
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    write(numbered(spark, given), options_of(given, "logs"))
    lines = spark.tvf.python_worker_logs().where("logger = 'kprod.spark'")
    return [row["msg"] for row in lines.collect()]


def partitions(spark: SparkSession, given: Namespace) -> Any:
    """The same keys by kprod and by Spark's own sink."""
    keys = spark.range(0, given.rows, 1, 4).selectExpr(
        "cast(concat(id, repeat('é', cast(id % 5 as int)), repeat('x', cast(id % 13 as int)))"
        " as binary) as key",
        "cast(id as string) as value",
    )
    write(keys, {"bootstrap.servers": given.servers, "topic": "by-kprod"})
    spark_options = {"kafka.bootstrap.servers": given.servers, "topic": "by-spark"}
    write(keys, spark_options, "kafka")
    return None


SCENES: dict[str, Callable[[SparkSession, Namespace], Any]] = {
    each.__name__: each
    for each in (
        save,
        registered,
        topics,
        as_json,
        json_schemas,
        repeat,
        stream,
        endless,
        where,
        files,
        for_each_batch,
        fault,
        bad_input,
        poison,
        logs,
        partitions,
        cancelled,
    )
}
