"""Compaction: seconds of a cleaning beside Apache Kafka's, and how long a produce waits meanwhile.

P6, cleaning. Records of 100 bytes, each key ten times, the same batches on both sides, one
partition, the same buffer for keys. Kafka cleans three equal topics and the third counts: its code
is compiled by then. Its own log says how long it took. kprod cleans a log in a directory, without a
broker. Neither cleans the active segment, and segments end alike.

P7, produce. A client in a process of its own sends batches of 1 KB to one topic, while the broker
compacts another one, and while it does not. The figure is the difference of the 99th percentiles,
by the size of the batches that are compacted: a slice of a round has at least one of them.

    python benchmarks/compaction.py [--part P6|P7] [--records N] [--quick] [--json FILE]
                                    [--plot FILE]

Thread-safety: one thread.
Source: Kafka 4.3.1, CleanerStats for the times.
"""

import argparse
import contextlib
import functools
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from report import Contestant, Report, main
from report_values import Metric

from kprod.broker import EmbeddedCluster
from kprod.broker.log.cleaning.picker import Lags, cleanable
from kprod.broker.log.cleaning.round import CleaningRound, RoundSettings
from kprod.broker.log.cleaning.survivors import Horizon
from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.system_disk import SystemDisk
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches
from kprod.record.writer import write_batch

if TYPE_CHECKING:
    from tests.conformance.sides import Side
    from tests.conformance.wire import Target

BUFFER_BYTES = 128 << 20
SEGMENT_BYTES = 64 << 20
BATCH_RECORDS = 150
LARGE_BATCH_RECORDS = 2_400
IN_FLIGHT = 8
VALUE = b"x" * 80
START_MS = 1_700_000_000_000
COMPACTED: dict[str, str | None] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(SEGMENT_BYTES),
}
KAFKA_TOPICS = 3
KAFKA_WITHIN_S = 120.0
_BEFORE_IT_LEADS = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_TOOK = re.compile(r"of log processed in ([\d,.]+) seconds")
SECONDS = Metric("P6 whole cleaning", "s", more_is_better=False)
WAITS = Metric("P7 p99 of a produce: added by compaction", "ms", more_is_better=False)


@functools.cache  # each side, and each topic, gets the same ones
def batches(record_count: int, batch_records: int = BATCH_RECORDS) -> Sequence[bytes]:
    """Each key ten times on average, in any order."""
    rng = random.Random(1)
    keys = record_count // 10
    return [
        write_batch(
            [
                (it, START_MS + start, b"key-%012d" % rng.randrange(keys), VALUE, ())
                for it in range(batch_records)
            ]
        )
        for start in range(0, record_count, batch_records)
    ]


def kprod_seconds(record_count: int) -> float:
    """Fill a log in a directory, and compact it."""
    with tempfile.TemporaryDirectory() as directory:
        pool = FilePool()
        rules = SegmentRules(segment_bytes=SEGMENT_BYTES, index_interval_bytes=4_096)
        log = PartitionLog(DirectoryStore(SystemDisk(pool), directory), rules=rules)
        for content in batches(record_count):
            encoded = memoryview(bytearray(content))
            log.append(next(read_batches(encoded)), encoded, leader_epoch=0)
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
    first, *others = batches(record_count)
    while (code := side.produce(target, first)["error_code"]) in _BEFORE_IT_LEADS:
        time.sleep(0.05)  # Kafka's metadata names a leader before the leader knows of it
    assert code == ErrorCode.NONE, f"a batch was rejected: {code}"
    with side.connect() as wire:
        waiting = 0
        for content in others:
            wire.send_produce(9, target, content, acks=1)
            waiting += 1
            if waiting == IN_FLIGHT:
                wire.read_frame()
                waiting -= 1
        for _ in range(waiting):
            wire.read_frame()
    assert side.offset(target, -1)["offset"] >= record_count, "a batch was rejected"


PRODUCER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tests.conformance.wire import Target, Wire
from kprod.protocol.api import ApiKey
from kprod.record.writer import write_batch
content = write_batch([(0, 1_700_000_000_000, b"key", bytes(1_000), ())])
with Wire(sys.argv[2]) as wire:
    for line in sys.stdin:
        took = []
        for _ in range(int(line)):
            begun = time.perf_counter()
            wire.send_produce(9, Target("other", None), content, acks=1)
            wire.read(ApiKey.PRODUCE, 9)
            took.append(time.perf_counter() - begun)
        took.sort()
        print(1_000 * took[len(took) * 99 // 100], flush=True)
"""


@contextlib.contextmanager
def producing(address: str) -> Generator[Callable[[int], float]]:
    """Start a process that sends batches, one after another, when it is told to.

    Yields:
        A function that takes their number, and returns the 99th percentile in milliseconds.
    """
    command = [sys.executable, "-c", PRODUCER, str(Path(__file__).parents[1]), address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def p99_ms(count: int) -> float:
            print(count, file=process.stdin, flush=True)
            return float(process.stdout.readline())  # type: ignore[union-attr]  # asserted above

        try:
            yield p99_ms
        finally:
            process.stdin.close()


def waits(report: Report, batch_records: int) -> list[float]:
    """Differences of paired runs: a dirty log for each, whose compaction outlasts the run."""
    count = report.pick(1_000, 300)
    rounds = report.options.rounds or report.pick(5, 3)
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedCluster(
            brokers=1, topics={"other": 1}, cleaner_backoff_ms=1, data_dir=directory
        ) as cluster,
        producing(cluster.bootstrap_servers) as p99_ms,
    ):
        state = cluster._kprod.engine.state  # noqa: SLF001 - nothing public appends so fast
        p99_ms(count)
        differences = []
        for number in range(rounds):
            topic = _dirty_topic(cluster, number, report.pick(3_500_000, 1_500_000), batch_records)
            without_ms = p99_ms(count)
            cluster.call(partial(state.alter_topic, topic, COMPACTED))
            cluster.call(state.cleaner.arm)
            while not cluster.call(lambda: state.cleaner.is_busy):
                time.sleep(0.001)
            differences.append(p99_ms(count) - without_ms)
            assert cluster.call(lambda: state.cleaner.is_busy), "the compaction ended before"
            cluster.delete_topic(topic)
    return differences


def _dirty_topic(
    cluster: EmbeddedCluster, number: int, record_count: int, batch_records: int
) -> str:
    """Make a topic that is not compacted before its policy is changed."""
    name = f"users-{number}"
    cluster.create_topic(name, 1, settings={"segment.bytes": str(SEGMENT_BYTES)})
    partition = cluster._kprod.engine.partition(name, 0)  # noqa: SLF001 - as above

    def fill() -> None:
        for content in batches(record_count, batch_records):
            encoded = memoryview(bytearray(content))
            partition.store(next(read_batches(encoded)), encoded, START_MS)
        partition.log.roll(START_MS)

    cluster.call(fill)
    return name


def benchmark(report: Report) -> None:
    """Fill the report."""
    part = report.options.extra.part
    if part in {None, "P6"}:
        record_count = report.options.extra.records or report.pick(10_000_000, 1_000_000)
        sides = [
            Contestant("Apache Kafka, warm", partial(kafka_seconds, record_count)),
            Contestant("kprod", partial(kprod_seconds, record_count)),
        ]
        report.compare(sides, metric=SECONDS, baseline="Apache Kafka, warm", rounds=1)
    if part in {None, "P7"}:
        for batch_records in (BATCH_RECORDS, LARGE_BATCH_RECORDS):
            size_bytes = len(batches(batch_records * 10, batch_records)[0])
            series = f"batches of {size_bytes:,} bytes"
            report.add(WAITS, series, waits(report, batch_records))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=["P6", "P7"], help="run this only")
    parser.add_argument("--records", type=int, help="of each log that is compacted")


if __name__ == "__main__":
    main("Compaction", benchmark, arguments=_arguments)
