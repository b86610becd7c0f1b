"""`kprod perf` beside `kafka-producer-perf-test`: the same work on the same Apache Kafka."""

import re
from pathlib import Path

import pytest

from kprod import Consumer
from tests.cli import running
from tests.consumer.reading import read_topic
from tests.perf.exact import exact_percentile
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_tools import KafkaTools

RECORD_COUNT, SIZE_BYTES, RATE, PARTITIONS = 20_000, 100, 5_000, 3
LINE = re.compile(
    r"^(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), [\d.]+ ms avg latency,"
    r" ([\d.]+) ms max latency, ([\d.]+) ms 50th, ([\d.]+) ms 95th, ([\d.]+) ms 99th,"
    r" ([\d.]+) ms 99\.9th\.$",
    re.MULTILINE,
)


def _end_offsets(kafka: KafkaNodes, topic: str) -> int:
    with Consumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        return sum(consumer.end_offsets(consumer.partitions_for(topic)).values())


def _log_bytes(kafka: KafkaNodes, topic: str) -> int:
    files = [file for partition in range(PARTITIONS) for file in kafka.log_files(topic, partition)]
    return sum(file.stat().st_size for file in files)


def _values(kafka: KafkaNodes, topic: str) -> list[bytes]:
    return [record.value for record in read_topic(kafka.bootstrap_servers, topic)]


def test_the_same_work_as_kafkas_tool(
    kafka: KafkaNodes, kafka_artifacts: Artifacts, tmp_path: Path
) -> None:
    """Both say what the broker has; kprod's percentiles are those of its latencies one by one."""
    work = {
        "--num-records": RECORD_COUNT,
        "--record-size": SIZE_BYTES,
        "--throughput": RATE,
        "--bootstrap-server": kafka.bootstrap_servers,
    }
    options = [str(word) for option in work.items() for word in option]
    for topic in ("perf-java", "perf-kprod"):
        kafka.create_topic(topic, partitions=PARTITIONS)
    latencies_file = tmp_path / "latencies"

    java = KafkaTools(kafka_artifacts).run(
        "org.apache.kafka.tools.ProducerPerformance", *options, "--topic", "perf-java"
    )
    kprod = running.run(
        "perf", *options, "--topic", "perf-kprod", "--latencies", str(latencies_file)
    ).stdout

    _check_against_broker(kafka, "perf-java", java)
    _check_against_broker(kafka, "perf-kprod", kprod)
    log_bytes, value_bytes = _log_bytes(kafka, "perf-kprod"), RECORD_COUNT * SIZE_BYTES
    assert f"record batches: {log_bytes} bytes sent, {value_bytes} bytes of values" in kprod
    _check_against_latencies(kprod, latencies_file)


def _check_against_broker(kafka: KafkaNodes, topic: str, said: str) -> None:
    """Records, bytes and rate are those of the log."""
    found = LINE.search(said)
    assert found is not None, said
    count, rate, mib, *_ = map(float, found.groups())
    assert int(count) == _end_offsets(kafka, topic) == RECORD_COUNT
    values = _values(kafka, topic)
    assert sum(map(len, values)) == RECORD_COUNT * SIZE_BYTES
    assert set(b"".join(values)) == set(range(ord("A"), ord("Z") + 1))
    # No record is sent before it is due.
    assert rate <= RATE * RECORD_COUNT / (RECORD_COUNT - 1) + 1
    assert mib == pytest.approx(rate * SIZE_BYTES / 2**20, abs=0.01)


def _check_against_latencies(said: str, latencies_file: Path) -> None:
    """Maximum and percentiles are those of the latencies one by one."""
    found = LINE.search(said)
    assert found is not None, said
    latencies_ns = list(map(int, latencies_file.read_text("ascii").split()))
    assert len(latencies_ns) == RECORD_COUNT
    maximum, *percentiles = map(float, found.groups()[3:])
    assert maximum == pytest.approx(max(latencies_ns) / 1e6, abs=0.01)
    for percent, said_ms in zip((50, 95, 99, 99.9), percentiles, strict=True):
        exact_ms = exact_percentile(latencies_ns, percent) / 1e6
        assert said_ms == pytest.approx(exact_ms, rel=0.002, abs=0.011)
