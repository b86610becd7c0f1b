"""Retention and deleted records: the same start offsets as Apache Kafka, both looking each second.

A topic that is made later and drops everything shows that both have looked at the others, too.
"""

from collections.abc import Generator, Mapping
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.clock import SystemClock
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.sides import Side, Sides
from tests.conformance.wire import Target
from tests.oracle.record_v2 import encode_batch
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes

CHECK_MS = 1_000
HOUR_MS = 3_600_000
EARLIEST = -2
BATCH_BYTES = 1_000
SEGMENT_BYTES = 2 * BATCH_BYTES
BATCHES = 9
LOOKS = 3
SET, TOPIC = 0, 2  # operation and resource type in IncrementalAlterConfigs

# Settings, the ages of the batches in hours, and what DeleteRecords is asked before retention.
CASES: Mapping[str, tuple[Mapping[str, str], list[float], int | None]] = {
    "size": ({"retention_bytes": "5000"}, [0] * BATCHES, None),
    "size-of-whole-segments": ({"retention_bytes": "4000"}, [0] * BATCHES, None),
    "size-a-byte-more": ({"retention_bytes": "4001"}, [0] * BATCHES, None),
    "size-zero": ({"retention_bytes": "0"}, [0] * BATCHES, None),
    "size-without-limit": ({"retention_bytes": "-1"}, [0] * BATCHES, None),
    "time": ({"retention_ms": str(5 * HOUR_MS)}, [9, 9, 9, 9, 9, 1, 1, 1, 1], None),
    "time-all": ({"retention_ms": str(HOUR_MS)}, [9] * BATCHES, None),
    "time-young-before-old": ({"retention_ms": str(HOUR_MS)}, [0, 0, *([9] * 7)], None),
    "time-one-young-in-a-segment": ({"retention_ms": str(HOUR_MS)}, [9, 0, *([9] * 7)], None),
    "time-without-limit": ({"retention_ms": "-1"}, [9] * BATCHES, None),
    "both": (
        {"retention_ms": str(5 * HOUR_MS), "retention_bytes": "6500"},
        [9, 9, 9, *([0] * 6)],
        None,
    ),
    "deleted-records": ({}, [0] * BATCHES, 5),
    "deleted-all-records": ({}, [0] * BATCHES, -1),
    "deleted-records-and-size": ({"retention_bytes": "3000"}, [0] * BATCHES, 3),
    "deleted-records-without-policy": ({"cleanup_policy": ""}, [0] * BATCHES, 5),
    "deleted-records-when-compacted-too": ({"cleanup_policy": "compact,delete"}, [0] * BATCHES, 5),
    "nothing-by-time-when-compacted": (
        {"cleanup_policy": "compact", "retention_ms": "1", "min_cleanable_dirty_ratio": "1.0"},
        [9] * BATCHES,
        None,
    ),
}


@pytest.fixture(scope="module")
def looking(kafka_artifacts: Artifacts) -> Generator[Sides]:
    """Both brokers, each looking for old segments every second.

    Yields:
        Them, ready.
    """
    settings = {
        "log.retention.check.interval.ms": str(CHECK_MS),
        "log.initial.task.delay.ms": "0",
    }
    config = EmbeddedConfig(
        auto_create_topics=False,
        default_replication_factor=1,
        retention_check_interval_ms=CHECK_MS,
    )
    with (
        KafkaNodes(kafka_artifacts, settings=settings) as kafka,
        EmbeddedCluster(brokers=1, config=config) as cluster,
    ):
        embedded = Side("embedded", cluster.bootstrap_servers)
        yield Sides(embedded, Side("kafka", kafka.bootstrap_servers))


def filled(side: Side, name: str, settings: Mapping[str, str], ages: list[float]) -> Target:
    """Make a topic with batches of a thousand bytes, two in a segment.

    Its retention begins once all are there: else an old batch may go before the young one that
    keeps its segment.

    Returns:
        Its partition.
    """
    retention = {key: value for key, value in settings.items() if key.startswith("retention")}
    target = side.create(
        name,
        1,
        **{
            "segment_bytes": str(1 << 20),
            "internal_segment_bytes": str(SEGMENT_BYTES),
            **{key: value for key, value in settings.items() if key not in retention},
            "retention_ms": "-1",
        },
    )
    now_ms = SystemClock().timestamp_ms()
    for number, age in enumerate(ages):
        timestamp_ms = now_ms - int(age * HOUR_MS)
        key = b"k%d" % number
        empty = encode_batch([(timestamp_ms, key, b"", ())])
        value = b"v" * (BATCH_BYTES - len(empty) - 2)
        batch = encode_batch([(timestamp_ms, key, value, ())])
        answer = side.produce(target, batch)
        assert answer["error_code"] == ErrorCode.NONE, (name, answer)
    if retention:
        alter(side, target, retention)
    return target


def alter(side: Side, target: Target, settings: Mapping[str, str]) -> None:
    """Set some of a topic's settings."""
    changes = [
        {"name": key.replace("_", "."), "config_operation": SET, "value": value}
        for key, value in settings.items()
    ]
    resource = {"resource_type": TOPIC, "resource_name": target.topic, "configs": changes}
    answer = side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
    assert answer["responses"][0]["error_code"] == ErrorCode.NONE, answer


def deleted(side: Side, target: Target, offset: int) -> None:
    """Delete records before an offset."""
    partition = {"partition_index": target.partition, "offset": offset}
    topics = [{"name": target.topic, "partitions": [partition]}]
    answer = side.ask(ApiKey.DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": 30_000})
    (topic,) = answer["topics"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.NONE


def start_of(side: Side, target: Target) -> int:
    """First offset that can be read."""
    return int(side.offset(target, EARLIEST)["offset"])


def wait_for_looks(side: Side) -> None:
    """Wait until old segments were looked for, several times."""
    for _ in range(LOOKS):
        target = filled(side, "sentinel", {"retention_ms": "1"}, [1])
        while not has_dropped(side, target):
            pass  # each question takes the broker's time, so this is no busy loop


def has_dropped(side: Side, target: Target) -> bool:
    """Whether a topic has lost its first record."""
    return start_of(side, target) > 0


def starts_of(side: Side) -> dict[str, Any]:
    """The first offset and the first batch's offset of each case after retention."""
    targets = {}
    for name, (settings, ages, delete_to) in CASES.items():
        targets[name] = filled(side, name, settings, ages)
        if delete_to is not None:
            deleted(side, targets[name], delete_to)
    wait_for_looks(side)
    return {name: start_of(side, target) for name, target in targets.items()}


def test_the_same_records_are_left(looking: Sides) -> None:
    """By size, by time, by the start offset, and by several of them."""
    starts = looking.agreed(starts_of)
    assert starts["size"] == 4
    assert starts["time"] == 4
    assert starts["size-without-limit"] == starts["nothing-by-time-when-compacted"] == 0
    assert starts["deleted-records"] == 5
