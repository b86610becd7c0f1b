"""The same histories compacted by Apache Kafka and here: the same survivors (I8), sound files (I9).

Both get the same encoded batches, roll at the same sizes, and compact at the same share of dirty
bytes. Offsets, timestamps, keys, values and the number of records of each batch must agree; batches
that only hold an offset may differ, since rounds end elsewhere.
"""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.broker.log.cleaning.picker import Lags, cleanable
from kprod.broker.log.cleaning.round import CleaningRound, RoundSettings
from kprod.broker.log.cleaning.survivors import Horizon
from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.model import Record
from kprod.record.reader import read_batches
from tests.broker.log.cleaning.histories import History, store
from tests.broker.log.stores import made_store
from tests.conformance.sides import Side
from tests.conformance.wire import Target
from tests.oracle.record_v2 import encode_batch
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_tools import TOOL_TIMEOUT_S, KafkaTools

SEEDS = range(5)
SEGMENT_BYTES = 16_384
RETENTION_MS = 3_000
FIRST_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CLEANED_WITHIN_S = 30.0
PAUSE_S = 0.1
SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(RETENTION_MS),
    "segment.ms": str(2**40),
}
Left = list[tuple[list[Record], int]]


def history(seed: int, part: int) -> Iterator[bytes]:
    """Batches of few keys, with tombstones, all codecs, and two idempotent producers."""
    rng = random.Random(100 * seed + part)
    next_sequence = {1: 1_000 * part, 2: 1_000 * part}
    for number in range(150):
        producer_id = rng.choice([-1, 1, 2])
        count = rng.choice([1, 1, 3, 30])
        rows = [
            (
                FIRST_MS + 1_000 * part + number + rng.randint(-20, 20),
                b"key-%d" % rng.randrange(40),
                None if rng.random() < 0.25 else rng.randbytes(rng.choice([0, 10, 200])),
                (("h", b"x"),) if rng.random() < 0.2 else (),
            )
            for _ in range(count)
        ]
        fields = {"codec": rng.choice([0, 0, 1, 2, 3, 4])}
        if producer_id > 0:
            fields |= {
                "producer_id": producer_id,
                "producer_epoch": part,
                "base_sequence": next_sequence[producer_id] - 1_000 * part,
            }
            next_sequence[producer_id] += count
        yield encode_batch(rows, **fields)  # type: ignore[arg-type]


def ending() -> bytes:
    """A batch that fills a segment, so that all before it are compacted."""
    return encode_batch([(FIRST_MS, b"end", random.Random(1).randbytes(15_000), ())])


class Ours:
    """A log of this broker, compacted with a clock of its own."""

    def __init__(self, directory: Path) -> None:
        """Make an empty log."""
        self.pool = FilePool()
        rules = SegmentRules(segment_bytes=SEGMENT_BYTES, index_interval_bytes=4_096)
        self.log = PartitionLog(made_store(directory, self.pool), rules=rules)
        self.now_ms = FIRST_MS

    def compact(self) -> None:
        """One round over all that may be compacted."""
        part = cleanable(self.log, Lags(), limit_offset=self.log.log_end_offset, now_ms=self.now_ms)
        settings = RoundSettings(4 << 20, Horizon(self.now_ms, RETENTION_MS))
        for _ in CleaningRound(self.log, part, settings).run():
            pass

    def left(self) -> Left:
        """All batches with records."""
        return [(list(it), it.record_count) for it in self.log.batches() if it.record_count]


class Kafkas:
    """A topic of Apache Kafka."""

    def __init__(self, nodes: KafkaNodes, name: str) -> None:
        """Make it."""
        self.nodes = nodes
        self.name = nodes.create_topic(name, settings=SETTINGS)
        self.side = Side("kafka", nodes.address_of(1))
        self.target = Target(name, None)  # type: ignore[arg-type]  # asked by name

    @property
    def directory(self) -> Path:
        """Directory of the topic's files."""
        return self.nodes.node(1).directory / "log" / f"{self.name}-0"

    def segments(self) -> list[Path]:
        """Its `.log` files."""
        return sorted(self.directory.glob("*.log"))

    def await_compaction(self) -> None:
        """Wait until all but the active segment is compacted."""
        checkpoint = self.directory.parent / "cleaner-offset-checkpoint"
        waited_s = 0.0
        while waited_s < CLEANED_WITHIN_S:
            lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
            cleaned = [it.split(" ")[2] for it in lines if it.startswith(f"{self.name} 0 ")]
            if cleaned and int(cleaned[0]) == int(self.segments()[-1].stem):
                return
            assert self.nodes.node(1).pause_while_alive(PAUSE_S), self.nodes.node(1).log_tail()
            waited_s += PAUSE_S
        pytest.fail(f"Kafka has not compacted {self.name}: {self.nodes.node(1).log_tail()}")

    def left(self) -> Left:
        """All batches with records."""
        encoded = b"".join(path.read_bytes() for path in self.segments())
        return [(list(it), it.record_count) for it in read_batches(encoded) if it.record_count]


@pytest.fixture(scope="module")
def cleaning_nodes(kafka_artifacts: Artifacts) -> Iterator[KafkaNodes]:
    """A node whose cleaner looks every tenth of a second."""
    with KafkaNodes(kafka_artifacts, settings={"log.cleaner.backoff.ms": "100"}) as nodes:
        yield nodes


def test_survivors_are_kafkas(cleaning_nodes: KafkaNodes, tmp_path: Path) -> None:
    """Five histories in two parts; between these the tombstones' horizons pass."""
    pairs = {
        seed: (Ours(tmp_path / f"users-{seed}"), Kafkas(cleaning_nodes, f"users-{seed}"))
        for seed in SEEDS
    }
    gone_tombstones = 0
    before: dict[int, set[int]] = {}
    for part in (0, 1):
        for seed, (ours, kafkas) in pairs.items():
            write_both(ours, kafkas, [*history(seed, part), ending()])
        for seed, (ours, kafkas) in pairs.items():
            kafkas.await_compaction()
            ours.compact()
            left = ours.left()
            assert left == kafkas.left(), f"seed {seed}, part {part}"
            tombstones = {it.offset for them, _ in left for it in them if it.value is None}
            assert tombstones
            gone_tombstones += len(before.get(seed, set()) - tombstones)
            before[seed] = tombstones
            ours.now_ms += RETENTION_MS + 1
        assert cleaning_nodes.node(1).pause_while_alive(RETENTION_MS / 1_000 + 0.5)
    assert gone_tombstones
    for ours, _ in pairs.values():
        ours.pool.close()


def write_both(ours: Ours, kafkas: Kafkas, encoded: list[bytes]) -> None:
    """Append the same batches on both sides."""
    with kafkas.side.connect() as wire:
        for content in encoded:
            wire.send_produce(9, kafkas.target, content, acks=1)
            (topic,) = wire.read(0, 9)["responses"]  # type: ignore[arg-type]
            (answer,) = topic["partition_responses"]
            assert answer["error_code"] == 0, answer
            assert store(ours.log, content) == answer["base_offset"]


def test_kafkas_tool_finds_every_cleaned_file_sound(
    kafka_artifacts: Artifacts, tmp_path: Path
) -> None:
    """Batches, indexes by offset, time and transaction, and snapshots (I9)."""
    tools = KafkaTools(kafka_artifacts)
    paths: list[Path] = []
    batch_count = 0
    for seed in range(6):
        pool = FilePool()
        directory = tmp_path / f"users-{seed}"
        rules = SegmentRules(index_interval_bytes=seed % 3 * 200 + 1)
        written = History(PartitionLog(made_store(directory, pool), rules=rules), 40 + seed)
        for _ in range(3):
            written.write(60)
            written.log.roll(written.now_ms)
            written.clean()
            written.now_ms += 2_000
        written.log.close()
        batch_count += sum(1 for _ in written.log.batches())
        pool.close()
        paths += sorted(directory.iterdir())
    logs = [it for it in paths if it.suffix == ".log"]
    others = [it for it in paths if it.suffix in {".index", ".timeindex", ".txnindex", ".snapshot"}]
    assert {it.suffix for it in others} == {".index", ".timeindex", ".txnindex", ".snapshot"}

    dumped = tools.dump_log_segments(logs)
    command = [*tools.java(log=None), "org.apache.kafka.tools.DumpLogSegments"]
    files = ",".join(map(str, others))
    run = subprocess.run(
        [*command, "--files", files],
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=True,
    )

    assert dumped.count("isvalid: true") == batch_count
    assert "isvalid: false" not in dumped
    said = (run.stdout + run.stderr).lower()
    for complaint in ("mismatch", "out of order", "not found", "corrupt", "exception"):
        assert complaint not in said, said
    assert said.count("producerid:") > 6
