"""Writes that are ended in their middle, and their remains; see `tests.spark.job`."""

import os
import signal
import socket
import threading
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import kprod.spark
from kprod.clock import SystemClock
from tests.spark.accidents import workers_of

ENDLESS = 10**12
POLL_S = 0.1
WAIT_S = 60.0
ENDED_S = 30.0
"""A worker ends when it sees that Java has left it, at the latest once its wait for a broker ends,
or is killed two seconds after its task was cancelled."""


def cancelled(spark: SparkSession, given: Namespace) -> Any:
    """End an endless write in each way; write again; tell the errors and the remains."""
    found = {}
    ways: dict[str, Callable[[SparkSession, Namespace], str]] = {
        "jobs cancelled": _cancel_jobs,
        "interrupted": _interrupt,
        "query stopped": _stop_query,
        "silent broker": _cancel_while_waiting,
    }
    for way, end in ways.items():
        raised = end(spark, given)
        if way == "interrupted":
            # PySpark's handler cancels the jobs by the connection that it interrupts, which may
            # fail; and its next calls are those of a Java thread without a session.
            spark.sparkContext.cancelAllJobs()
            kprod.spark.register(spark)
        left = [pid for pid in _busy if not _ends(pid)]
        before = _record_count(given.servers, "endless")
        _save(spark.range(0, given.rows, 1, 4), given.servers, "next")
        after = _record_count(given.servers, "endless")
        found[way] = {
            "raised": raised,
            "worker_count": len(_busy),
            "left": left,
            "late": after - before,
        }
    return found


_busy: list[int] = []
"""Workers of the write that was ended last."""


def _cancel_jobs(spark: SparkSession, given: Namespace) -> str:
    def cancel() -> None:
        _await_records(given.servers)
        _note_workers()
        spark.sparkContext.cancelAllJobs()

    return _write_until(spark, given.servers, cancel)


def _interrupt(spark: SparkSession, given: Namespace) -> str:
    """Interrupt the driver, as Ctrl+C does: PySpark cancels the jobs."""

    def interrupt() -> None:
        _await_records(given.servers)
        _note_workers()
        os.kill(os.getpid(), signal.SIGINT)

    return _write_until(spark, given.servers, interrupt)


def _cancel_while_waiting(spark: SparkSession, given: Namespace) -> str:
    """Cancel tasks that wait for a broker which accepts connections and does not respond."""
    del given
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)

        def cancel() -> None:
            with server.accept()[0], server.accept()[0]:  # both tasks are waiting
                _note_workers()
                spark.sparkContext.cancelAllJobs()

        return _write_until(spark, f"127.0.0.1:{server.getsockname()[1]}", cancel)


def _write_until(spark: SparkSession, servers: str, end: Callable[[], None]) -> str:
    """Write endless rows until another thread ends it; return the error."""
    thread = threading.Thread(target=end)
    thread.start()
    try:
        _save(spark.range(0, ENDLESS, 1, 2), servers, "endless")
    except BaseException as error:  # noqa: BLE001 - the finding itself
        return f"{type(error).__name__}: {error}"
    finally:
        thread.join()
    return ""


def _stop_query(spark: SparkSession, given: Namespace) -> str:
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ENDLESS)
        .option("numPartitions", 2)
        .load()
    )
    query = (
        rows.selectExpr("cast(value as string) as value")
        .writeStream.format("kprod")
        .options(**{"bootstrap.servers": given.servers, "topic": "endless"})
        .option("checkpointLocation", str(given.out.parent / "cancelled"))
        .start()
    )
    _await_records(given.servers)
    _note_workers()
    query.stop()
    return "" if query.exception() is None else str(query.exception())


def _save(numbers: DataFrame, servers: str, topic: str) -> None:
    options = {"bootstrap.servers": servers, "topic": topic, "check.cluster": "false"}
    options["max.block.ms"] = "5000"
    rows = numbers.selectExpr("cast(id as string) as value")
    rows.write.format("kprod").options(**options).mode("append").save()


def _note_workers() -> None:
    _busy[:] = workers_of(os.getsid(0))


def _await_records(servers: str) -> None:
    clock = SystemClock()
    before, deadline_ms = _record_count(servers, "endless"), clock.now_ms() + WAIT_S * 1_000
    while _record_count(servers, "endless") == before:
        assert clock.now_ms() < deadline_ms, "no record comes"
        threading.Event().wait(POLL_S)


def _record_count(servers: str, topic: str) -> int:
    import confluent_kafka  # noqa: PLC0415 - the environments of other PySpark versions lack it

    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "count"})
    try:
        partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
        ends = [
            consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, p), WAIT_S)
            for p in partitions
        ]
    finally:
        consumer.close()
    return sum(end for _, end in ends)


def _ends(pid: int) -> bool:
    clock = SystemClock()
    deadline_ms = clock.now_ms() + ENDED_S * 1_000
    while clock.now_ms() < deadline_ms:
        if pid not in workers_of(os.getsid(0)):
            return True
        threading.Event().wait(POLL_S)
    return False
