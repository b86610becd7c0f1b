"""Compaction: seconds of a cleaning beside Apache Kafka's, and how long a produce waits meanwhile.

Cleaning. Records of 100 bytes, each key ten times, the same batches on both sides, one partition,
the same buffer for keys. Kafka cleans three equal topics and the third counts: its code is compiled
by then. Its own log says how long it took. kprod cleans a log in a directory, without a broker.

Produce. A client in a process of its own sends batches of 1 KB to one topic, while the broker
compacts another one, and while it does not. The figure is the difference of the 99th percentiles.

Thread-safety: one thread.
Source: Kafka 4.3.1, CleanerStats for the times.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from report import Contestant, Report, main
from report_values import Metric

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.log.cleaning.picker import Lags, cleanable
from kprod.broker.log.cleaning.round import CleaningRound, RoundSettings
from kprod.broker.log.cleaning.survivors import Horizon
from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.system_disk import SystemDisk
from kprod.protocol.api import ApiKey
from kprod.record.reader import read_batches
from kprod.record.writer import write_batch

if TYPE_CHECKING:
    from tests.conformance.sides import Side
    from tests.conformance.wire import Target

BUFFER_BYTES = 128 << 20
SEGMENT_BYTES = 64 << 20
BATCH_RECORDS = 150
VALUE = b"x" * 80
START_MS = 1_700_000_000_000
KAFKA_TOPICS = 3
KAFKA_WITHIN_S = 120.0
_TOOK = re.compile(r"of log processed in ([\d,.]+) seconds")
SECONDS = Metric("whole cleaning", "s", more_is_better=False)
WAITS = Metric("p99 of a produce while compacting, less p99 without", "ms", more_is_better=False)


def batches(record_count: int) -> Iterator[bytes]:
    """Each key ten times on average, in any order."""
    rng = random.Random(1)
    keys = record_count // 10
    for start in range(0, record_count, BATCH_RECORDS):
        yield write_batch(
            [
                (it, START_MS + start, b"key-%012d" % rng.randrange(keys), VALUE, ())
                for it in range(BATCH_RECORDS)
            ]
        )


def kprod_seconds(record_count: int) -> float:
    """Fill a log in a directory, and compact it."""
    with tempfile.TemporaryDirectory() as directory:
        pool = FilePool()
        rules = SegmentRules(segment_bytes=SEGMENT_BYTES, index_interval_bytes=4_096)
        log = PartitionLog(DirectoryStore(SystemDisk(pool), directory), rules=rules)
        for content in batches(record_count):
            encoded = memoryview(bytearray(content))
            log.append(next(read_batches(encoded)), encoded, leader_epoch=0)
        log.roll(START_MS)
        part = cleanable(log, Lags(), limit_offset=log.log_end_offset, now_ms=START_MS)
        settings = RoundSettings(BUFFER_BYTES, Horizon(START_MS, 86_400_000))
        begun_s = time.perf_counter()
        for _ in CleaningRound(log, part, settings).run():
            pass
        seconds = time.perf_counter() - begun_s
        pool.close()
        return seconds


def kafka_seconds(record_count: int) -> float:
    """Let Kafka compact three equal topics, one after another; what it says of the third."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.conformance.sides import Side  # noqa: PLC0415 - of the tree
    from tests.conformance.wire import Target  # noqa: PLC0415
    from tests.plugins.kafka_artifacts import fetch  # noqa: PLC0415
    from tests.plugins.kafka_nodes import KafkaNodes  # noqa: PLC0415
    from tests.plugins.kafka_settings import STRONG_JAVA  # noqa: PLC0415

    broker = {
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.dedupe.buffer.size": str(BUFFER_BYTES),
    }
    topic_settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "1",
        "segment.ms": str(2**40),
    }
    took: list[str] = []
    with KafkaNodes(fetch(), settings=broker, java_flags=STRONG_JAVA) as nodes:
        side = Side("kafka", nodes.address_of(1))
        log = nodes.node(1).directory / "node.log"
        for number in range(KAFKA_TOPICS):
            name = nodes.create_topic(f"users-{number}", settings=topic_settings)
            target = Target(name, None)  # type: ignore[arg-type]  # asked by name
            _fill(side, target, record_count)
            entry = {"name": "min.cleanable.dirty.ratio", "config_operation": 0, "value": "0.01"}
            resource = {"resource_type": 2, "resource_name": target.topic, "configs": [entry]}
            body = {"resources": [resource], "validate_only": False}
            side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)
            waited_s = 0.0
            while len(took) <= number and waited_s < KAFKA_WITHIN_S:
                nodes.node(1).pause_while_alive(0.2)
                waited_s += 0.2
                took = _TOOK.findall(log.read_text("utf-8"))
    return float(took[KAFKA_TOPICS - 1].replace(",", ""))


def _fill(side: "Side", target: "Target", record_count: int) -> None:
    with side.connect() as wire:
        for content in batches(record_count):
            wire.send_produce(9, target, content, acks=1)
            wire.read(ApiKey.PRODUCE, 9)


PRODUCER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tests.conformance.wire import Target, Wire
from kprod.protocol.api import ApiKey
from kprod.record.writer import write_batch
content = write_batch([(0, 1_700_000_000_000, b"key", bytes(1_000), ())])
took = []
with Wire(sys.argv[2]) as wire:
    for _ in range(int(sys.argv[3])):
        begun = time.perf_counter()
        wire.send_produce(9, Target("other", None), content, acks=1)
        wire.read(ApiKey.PRODUCE, 9)
        took.append(time.perf_counter() - begun)
took.sort()
print(1_000 * took[len(took) * 99 // 100])
"""


def produce_p99_ms(address: str, count: int) -> float:
    """Send batches from another process, one after another."""
    root = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", PRODUCER, root, address, str(count)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def waits(report: Report) -> list[float]:
    """Differences of paired runs; the log is dirty again as soon as it is clean."""
    count = report.pick(3_000, 500)
    config = EmbeddedConfig(cleaner_backoff_ms=1)
    differences = []
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedCluster(brokers=1, topics={"other": 1}, config=config, data_dir=directory) as (
            cluster
        ),
    ):
        settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        cluster.create_topic("users", 1, settings=settings)
        engine = cluster._kprod.engine  # noqa: SLF001 - nothing public makes a log dirty again
        partition = engine.partition("users", 0)
        for content in batches(report.pick(600_000, 150_000)):
            encoded = memoryview(bytearray(content))
            judged = next(read_batches(encoded))
            cluster.call(partial(partition.store, judged, encoded, START_MS))
        for _ in range(report.options.rounds or report.pick(5, 3)):
            without_ms = produce_p99_ms(cluster.bootstrap_servers, count)
            cluster.call(partial(partition.log.roll, START_MS))
            stop = _keep_dirty(cluster, partition.log)
            differences.append(produce_p99_ms(cluster.bootstrap_servers, count) - without_ms)
            stop()
    return differences


def _keep_dirty(cluster: EmbeddedCluster, log: PartitionLog) -> Callable[[], None]:
    """Compact again and again, until the returned function is called."""
    state = cluster._kprod.engine.state  # noqa: SLF001 - as above
    is_over = threading.Event()

    def again() -> None:
        if not is_over.is_set():
            log.cleaned_offset = 0
            state.cleaner.arm()
            state.after(5, again)

    cluster.call(again)
    return is_over.set


def benchmark(report: Report) -> None:
    """Fill the report."""
    part = report.options.extra.part
    if part in {None, "cleaning"}:
        record_count = report.options.extra.records or report.pick(10_000_000, 300_000)
        sides = [
            Contestant("Apache Kafka, warm", partial(kafka_seconds, record_count)),
            Contestant("kprod", partial(kprod_seconds, record_count)),
        ]
        report.compare(sides, metric=SECONDS, baseline="Apache Kafka, warm", rounds=1)
    if part in {None, "waits"}:
        report.add(WAITS, "kprod", waits(report))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=["cleaning", "waits"])
    parser.add_argument("--records", type=int, help="of each log that is compacted")


if __name__ == "__main__":
    main("Compaction", benchmark, arguments=_arguments)
