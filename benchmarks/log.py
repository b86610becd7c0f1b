"""The embedded broker's log: appends, clean start, recovery, look-ups, each beside a bare peer.

No sockets, but for P2 end to end: batches go through validation and the partition, as the Produce
handler has it. The peers do the same work without a log: validate and `os.write`, or read a file
and checksum it. P1 has an older tree of this project beside it, in processes of their own
(`log_memory.py`); P3 has Apache Kafka with `--kafka`.

    python benchmarks/log.py [--part P1 …] [--old COMMIT] [--kafka] [--quick] [--json FILE]
                             [--plot FILE]

Thread-safety: one thread, but for P2 end to end, whose producer and cluster have their own.
"""

import argparse
import gc
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from crc32c import crc32c
from log_kafka import kafka_starts
from report import Contestant, Report, main
from report_values import Metric
from source_trees import ROOT, source_tree

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.broker.cluster_state import CLUSTER_ID, ClusterState
from kprod.broker.config import EmbeddedConfig
from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.durable_logs import DurableLogs, Storage
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.identity import mark_clean_close
from kprod.broker.log.loading import LoadOptions, load_log
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.system_disk import SystemDisk
from kprod.broker.log.time_lookup import first_record_at
from kprod.broker.log.validation import validate_batch
from kprod.broker.replication import Partition
from kprod.clock import SystemClock
from kprod.model import Node, Record
from kprod.record.reader import read_batches
from kprod.record.writer import write_batch

NOW_MS = 1_700_000_000_000
MEGABYTE = 1 << 20
OLD = "250df23"  # its broker had its logs in memory alone
KAFKA = "Apache Kafka"
DISK_RULES = SegmentRules(index_interval_bytes=4_096)


def batch_of(size_bytes: int, record_bytes: int, *, timestamp_ms: int = NOW_MS) -> bytes:
    """Make a batch of about a size."""
    value = random.Random(record_bytes).randbytes(record_bytes)
    count = max(size_bytes // (record_bytes + 20), 1)
    return write_batch([Record(it, timestamp_ms, b"key", value, ()) for it in range(count)])


class Cluster:
    """One broker's state without sockets, in memory or in a directory."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        partitions: int = 1,
        disk: SystemDisk | None = None,
    ) -> None:
        """Open it, with one topic unless the directory has it."""
        clock = SystemClock()
        self.state = ClusterState(EmbeddedConfig(), clock, [0])
        self.state.nodes[0] = Node(0, "127.0.0.1", 9_092)
        if directory is not None:
            self.state.logs = DurableLogs(
                Storage(disk or SystemDisk(), (str(directory),)),
                cluster_id=CLUSTER_ID,
                node_id=0,
                clock=clock,
                after=self.state.after,
                high_watermarks=self.state.high_watermarks,
            )
            self.state.load()
        if self.state.topics.get("orders") is None:
            self.state.create_topic("orders", partition_count=partitions)

    def partition(self, index: int = 0) -> Partition:
        """One of the topic's."""
        partition = self.state.topics.partition("orders", index)
        assert partition is not None
        return partition

    def append(self, content: bytes, index: int = 0) -> None:
        """Validate and append a batch as the handler does."""
        partition = self.partition(index)
        encoded = memoryview(bytearray(content))
        batch = validate_batch(encoded, partition.config, api_version=9, timestamp_ms=NOW_MS)
        partition.append(batch, encoded, NOW_MS, acks=-1)


def timed(work: Callable[[], object]) -> float:
    """Seconds of some work."""
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class UnsyncedDisk(SystemDisk):
    """Files that are never synced: the benchmark prepares them to be read, and nothing crashes."""

    def sync(self, path: str) -> None:
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""


def memory(report: Report, _: Path) -> None:
    """P1: append, fetch and start in memory, beside the broker of an older commit."""
    trees = {OLD: source_tree(report.options.extra.old), "this tree": ROOT}
    count = report.pick(50_000, 5_000)
    for what, unit, its_count in (
        ("append", "us", count),
        ("fetch", "us", count),
        ("start", "ms", count // 500),
    ):

        def measured(tree: Path, what: str = what, its_count: int = its_count) -> float:
            script = Path(__file__).with_name("log_memory.py")
            options = ["--tree", str(tree), "--what", what, "--count", str(its_count)]
            run = subprocess.run(
                [sys.executable, script, *options], capture_output=True, text=True, check=True
            )
            return float(json.loads(run.stdout))

        report.compare(
            [Contestant(name, partial(measured, tree)) for name, tree in trees.items()],
            metric=Metric(f"P1 {what} in memory", unit, more_is_better=False),
            baseline=OLD,
        )


def appends(report: Report, directory: Path) -> None:
    """P2: batches of a megabyte to a file; beside validation and a bare write, and memory."""
    content = batch_of(MEGABYTE - 4_096, 100)
    count = report.pick(400, 40)
    total_mb = count * len(content) / 1e6

    def broker(where: Path | None) -> float:
        if where is not None:
            shutil.rmtree(where, ignore_errors=True)
        cluster = Cluster(where)

        def work() -> None:
            for _ in range(count):
                cluster.append(content)

        elapsed_s = timed(work)
        if where is not None:
            cluster.state.logs.abandon()
        return total_mb / elapsed_s

    def bare() -> float:
        config = Cluster().partition().config
        path = directory / "bare"
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

        def work() -> None:
            for _ in range(count):
                encoded = memoryview(bytearray(content))
                validate_batch(encoded, config, api_version=9, timestamp_ms=NOW_MS)
                os.write(descriptor, encoded)

        elapsed_s = timed(work)
        os.close(descriptor)
        return total_mb / elapsed_s

    report.compare(
        [
            Contestant("validate and write", bare),
            Contestant("broker, directory", lambda: broker(directory / "appends")),
            Contestant("broker, memory", lambda: broker(None)),
        ],
        metric=Metric("P2 append, 1 MB batches", "MB/s"),
        baseline="validate and write",
    )


def end_to_end(report: Report, directory: Path) -> None:
    """P2 again, by a producer and its sockets: records of 100 bytes in batches of a megabyte."""
    values = [random.Random(2).randbytes(100)] * 1_000
    count = report.pick(1_000, 100)
    total_mb = count * len(values) * 100 / 1e6

    def sent(where: Path | None) -> float:
        if where is not None:
            shutil.rmtree(where, ignore_errors=True)
        with (
            EmbeddedCluster(1, {"orders": 1}, data_dir=where) as cluster,
            Producer(
                bootstrap_servers=cluster.bootstrap_servers, batch_size=MEGABYTE, linger_ms=20
            ) as producer,
        ):

            def work() -> None:
                for _ in range(count):
                    producer.send_many("orders", values)
                producer.flush()

            return total_mb / timed(work)

    report.compare(
        [
            Contestant("producer, memory", lambda: sent(None)),
            Contestant("producer, directory", lambda: sent(directory / "sent")),
        ],
        metric=Metric("P2 end to end, 1 MB batches", "MB/s"),
        baseline="producer, memory",
    )


def clean_start(report: Report, directory: Path) -> None:
    """P3: load partitions of three segments and an active one each, after a clean close."""
    count = report.pick(1_000, 100)
    where = directory / "partitions"
    cluster = Cluster(where, partitions=count, disk=UnsyncedDisk())
    content = batch_of(2_000, 100)
    for index in range(count):
        log = cluster.partition(index).log
        for _ in range(3):
            cluster.append(content, index)
            log.roll(NOW_MS)
        cluster.append(content, index)
    cluster.state.close()

    def opened() -> float:
        started = Cluster.__new__(Cluster)
        elapsed_s = timed(lambda: started.__init__(where, partitions=count))  # type: ignore[misc]
        assert started.state.logs.summary is not None
        assert started.state.logs.summary.recovered_count == 0
        # Closed as it was, without the syncs of a thousand partitions in each round.
        started.state.logs.abandon()
        mark_clean_close(SystemDisk(), str(where))
        return elapsed_s

    metric = Metric(f"P3 clean start, {count} partitions", "s", more_is_better=False)
    if not report.options.extra.kafka:
        report.compare([Contestant("broker", opened)], metric=metric)
        return
    with kafka_starts(count, content) as started_s:
        report.compare(
            [Contestant(KAFKA, started_s), Contestant("broker", opened)],
            metric=metric,
            baseline=KAFKA,
        )


def filled_log(
    directory: Path, size_bytes: int, batch_bytes: int
) -> tuple[PartitionLog, DirectoryStore]:
    """Write a log of one segment, a millisecond between two batches."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    store = DirectoryStore(SystemDisk(FilePool()), str(directory))
    log = PartitionLog(store, rules=DISK_RULES)
    for number in range(size_bytes // batch_bytes):
        encoded = memoryview(
            bytearray(batch_of(batch_bytes, batch_bytes // 20, timestamp_ms=NOW_MS + number))
        )
        log.append(next(read_batches(encoded)), encoded, leader_epoch=0)
    return log, store


def recovery(report: Report, directory: Path) -> None:
    """P4: check a log after a kill; beside reading its file and checksumming the batches."""
    for batch_bytes, share in ((16_384, 1), (200, 16)):
        size_bytes = report.pick(256, 16) * MEGABYTE // share
        log, store = filled_log(directory / "killed", size_bytes, batch_bytes)
        log.flush()  # else recovery waits until the disk has the file, and its peer does not
        path = directory / "killed" / f"{0:020d}.log"
        total_mb = path.stat().st_size / 1e6

        def recovered(store: DirectoryStore = store, total_mb: float = total_mb) -> float:
            return total_mb / timed(lambda: load_log(store, LoadOptions(DISK_RULES)))

        def checksummed(path: Path = path, total_mb: float = total_mb) -> float:
            def work() -> None:
                with path.open("rb") as file:
                    while piece := file.read(MEGABYTE):
                        crc32c(piece)

            return total_mb / timed(work)

        report.compare(
            [Contestant("read and crc32c", checksummed), Contestant("recovery", recovered)],
            metric=Metric("P4 recovery by batch size", "MB/s", against="bytes of a batch"),
            baseline="read and crc32c",
            at=batch_bytes,
        )


def look_ups(report: Report, directory: Path) -> None:
    """P5: random offsets and times in a segment, median of each look-up."""
    size_bytes = report.pick(1_024, 32) * MEGABYTE
    log, _ = filled_log(directory / "large", size_bytes - MEGABYTE, 16_384)
    end_offset, latest_ms = log.log_end_offset, log.segments[-1].largest.timestamp_ms
    source = random.Random(5)

    def p50_us(look_up: Callable[[int], object], lowest: int, highest: int) -> float:
        elapsed_ns = []
        for _ in range(report.pick(5_000, 1_000)):
            wanted = source.randint(lowest, highest)
            began = time.perf_counter_ns()
            look_up(wanted)
            elapsed_ns.append(time.perf_counter_ns() - began)
        return statistics.median(elapsed_ns) / 1e3

    def by_offset(offset: int) -> object:
        return log.segments[-1].locate(offset)

    def by_time(timestamp_ms: int) -> object:
        return first_record_at(log, timestamp_ms)

    metric = Metric("P5 look-up, p50", "us", more_is_better=False)
    report.compare(
        [
            Contestant("by offset", lambda: p50_us(by_offset, 0, end_offset - 1)),
            Contestant("by time", lambda: p50_us(by_time, NOW_MS, latest_ms)),
        ],
        metric=metric,
    )


PARTS: Mapping[str, Callable[[Report, Path], None]] = {
    "P1": memory,
    "P2": appends,
    "P2-sent": end_to_end,
    "P3": clean_start,
    "P4": recovery,
    "P5": look_ups,
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the benchmark's own options."""
    parser.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS], help="run these only")
    parser.add_argument("--kafka", action="store_true", help="run P3 beside Apache Kafka")
    parser.add_argument("--old", default=OLD, help="commit or built tree beside which P1 runs")


def benchmark(report: Report) -> None:
    """Run the parts in a directory of their own."""
    with tempfile.TemporaryDirectory(prefix=f"kprod-log-{uuid.uuid4().hex[:6]}-") as temporary:
        directory = Path(temporary)
        for name in report.options.extra.part:
            PARTS[name](report, directory)


if __name__ == "__main__":
    main("The embedded broker's log", benchmark, arguments=options)
