"""Segments written in a directory, read by Apache Kafka's own tool."""

import random
import re
import subprocess
from pathlib import Path

from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.record.reader import read_batches
from tests.broker.log.stores import made_store
from tests.oracle.record_v2 import encode_batch
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_tools import TOOL_TIMEOUT_S, KafkaTools

SEGMENTS = 200
BATCHES = 800
COMPLAINT = re.compile(r"mismatch|out of order|not found|corrupt", re.IGNORECASE)


def written(directory: Path, *, batches: int, index_interval_bytes: int) -> list[Path]:
    """Append batches of a few records, their timestamps going up and down; the `.log` files."""
    random_source = random.Random(24)
    pool = FilePool(descriptors_max=4)
    rules = SegmentRules(segment_bytes=3_000, index_interval_bytes=index_interval_bytes)
    log = PartitionLog(made_store(directory, pool), rules=rules)
    for number in range(batches):
        rows = [
            (
                1_700_000_000_000 + number * 10 + random_source.randrange(-50, 50),
                b"k",
                b"v" * 60,
                (),
            )
            for _ in range(random_source.randrange(1, 6))
        ]
        encoded = memoryview(bytearray(encode_batch(rows)))
        batch = next(read_batches(encoded))
        log.append(batch, encoded, leader_epoch=1)
    log.save_indexes()
    pool.close()
    return sorted(directory.glob("*.log"))


def dump_indexes(tools: KafkaTools, paths: list[Path]) -> str:
    """Return the tool's output for indexes; its findings are on standard error."""
    files = ",".join(map(str, paths))
    command = [*tools.java(log=None), "org.apache.kafka.tools.DumpLogSegments", "--files", files]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=True
    )
    return run.stdout + run.stderr


def test_kafkas_tool_finds_every_segment_and_index_sound(
    kafka_artifacts: Artifacts, tmp_path: Path
) -> None:
    """Each batch valid, each index entry at its batch, each timestamp the largest until there."""
    tools = KafkaTools(kafka_artifacts)
    logs: list[Path] = []
    for interval in (1, 512, 4_096):
        directory = tmp_path / f"orders-{interval}"
        logs += written(directory, batches=BATCHES, index_interval_bytes=interval)
    assert len(logs) >= SEGMENTS
    indexes = [path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")]

    dumped = tools.dump_log_segments(logs)
    checked = dump_indexes(tools, indexes)

    assert dumped.count("isvalid: true") == 3 * BATCHES
    assert "isvalid: false" not in dumped
    assert not re.search(COMPLAINT, checked)
    assert len(re.findall(r"^offset: \d+ position: \d+", checked, re.MULTILINE)) > SEGMENTS
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", checked, re.MULTILINE)) > SEGMENTS


def test_kafkas_tool_complains_of_a_wrong_entry(kafka_artifacts: Artifacts, tmp_path: Path) -> None:
    """So that its silence says something: an offset and a timestamp are changed."""
    (path, *_) = written(tmp_path / "orders-0", batches=20, index_interval_bytes=1)
    for suffix, at in ((".index", 3), (".timeindex", 7)):
        index = path.with_suffix(suffix)
        content = bytearray(index.read_bytes())
        content[at] ^= 1
        index.write_bytes(content)

        checked = dump_indexes(KafkaTools(kafka_artifacts), [index])

        assert COMPLAINT.search(checked), checked
