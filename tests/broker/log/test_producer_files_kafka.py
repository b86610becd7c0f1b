"""Transaction indexes and snapshots of producers, read by Apache Kafka's own tool."""

import random
import re
from pathlib import Path

from kprod.broker.log.file_pool import FilePool
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.producer_snapshot import decode_snapshot
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.log.transaction_index import TransactionIndex
from kprod.record.control import ControlType, EndMarker, encode_marker_batch
from kprod.record.reader import read_batches
from tests.broker.log.stores import made_store
from tests.broker.log.test_directory_store_kafka import dump_indexes
from tests.oracle.record_v2 import encode_batch
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_tools import KafkaTools

NOW_MS = 1_700_000_000_000
PRODUCERS = range(1, 6)
STEPS = 300
SNAPSHOT_ROW = re.compile(
    r"^producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) "
    r"currentTxnFirstOffset: (\S+) lastTimestamp: (-?\d+) firstSequence: (-?\d+) "
    r"lastSequence: (-?\d+) lastOffset: (-?\d+) offsetDelta: (-?\d+) timestamp: (-?\d+)",
    re.MULTILINE,
)
ABORTED_ROW = re.compile(
    r"^version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)",
    re.MULTILINE,
)


def put(log: PartitionLog, content: bytes | bytearray) -> None:
    """Append a batch as the partition does."""
    encoded = memoryview(bytearray(content))
    batch = next(read_batches(encoded))
    ended = log.producers.remember(batch, log.append(batch, encoded, leader_epoch=0))
    if ended is not None:
        log.note_ended(ended)


def written(directory: Path) -> None:
    """Transactions of several producers, some aborted and some open, and batches without one."""
    rng = random.Random(9)
    pool = FilePool(descriptors_max=8)
    log = PartitionLog(made_store(directory, pool), rules=SegmentRules(segment_bytes=3_000))
    sequences = dict.fromkeys(PRODUCERS, 0)
    for number in range(STEPS):
        producer_id = rng.choice(PRODUCERS)
        if producer_id in log.producers.transactions and rng.random() < 0.4:
            kind = rng.choice([ControlType.ABORT, ControlType.COMMIT])
            marker = encode_marker_batch(
                EndMarker(kind, 2),
                producer_id=producer_id,
                producer_epoch=3,
                timestamp_ms=NOW_MS + number,
            )
            put(log, marker)
            continue
        rows = [(NOW_MS + number, b"k", b"v", ())] * rng.randrange(1, 4)
        batch = encode_batch(
            rows,
            producer_id=producer_id,
            producer_epoch=3,
            base_sequence=sequences[producer_id],
            is_transactional=producer_id != 1,
        )
        put(log, batch)
        sequences[producer_id] += len(rows)
    assert len(log.producers.transactions)
    log.close()
    pool.close()


def test_kafkas_tool_reads_every_snapshot_and_transaction_index(
    kafka_artifacts: Artifacts, tmp_path: Path
) -> None:
    """Each field of each row."""
    written(tmp_path / "orders-0")
    snapshots = sorted((tmp_path / "orders-0").glob("*.snapshot"))
    aborted = sorted((tmp_path / "orders-0").glob("*.txnindex"))
    assert len(snapshots) > 5
    assert len(aborted) > 5
    printed = dump_indexes(KafkaTools(kafka_artifacts), [*snapshots, *aborted])

    told = [tuple(row) for row in re.findall(SNAPSHOT_ROW, printed)]
    rows = [row for path in snapshots for row in decode_snapshot(path.read_bytes())]
    assert told == [
        (
            str(row.producer_id),
            str(row.producer_epoch),
            str(row.coordinator_epoch),
            "OptionalLong.empty" if row.open_offset < 0 else f"OptionalLong[{row.open_offset}]",
            str(row.timestamp_ms),
            str(row.last_sequence - row.offset_delta if row.last_offset >= 0 else -1),
            str(row.last_sequence),
            str(row.last_offset),
            str(row.offset_delta),
            str(row.timestamp_ms),
        )
        for row in rows
    ]
    entries = [it for path in aborted for it in TransactionIndex.decoded(path.read_bytes())]
    assert [tuple(map(int, row)) for row in re.findall(ABORTED_ROW, printed)] == entries
    assert len(entries) > 10
