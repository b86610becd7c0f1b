"""The metrics of an embedded cluster, read after real appends, flushes, failures and rounds."""

from pathlib import Path

import pytest

from kprod.broker import EmbeddedConfig
from kprod.broker.broker_metrics import LOG, ROWS
from kprod.broker.log.flush_stats import FlushStats
from kprod.clock import ManualClock
from tests.broker.world import TIMESTAMP_MS, World, batch
from tests.oracle.record_v2 import encode_batch

FLUSHES = "LogFlushStats.LogFlushRateAndTimeMs"
BACK_OFF_MS = 1_000
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "2000"}


def produce(world: World, topic: str, *rows: tuple[bytes, bytes]) -> int:
    """Send one batch.

    Returns:
        Its size in bytes.
    """
    encoded = encode_batch([(TIMESTAMP_MS, key, value, ()) for key, value in rows])
    assert world.client().produced(encoded, topic=topic)["error_code"] == 0
    return len(encoded)


def test_every_metric_of_the_table_is_there() -> None:
    """In its group, those of logs once for each partition, and no other is."""
    world = World(topics={"orders": 2, "users": 1})
    metrics = world.cluster.metrics()
    listed: dict[str, list[str]] = {}
    for row in ROWS:
        listed.setdefault(row.group, []).append(row.name)
    of_logs = listed.pop(LOG)
    for name in ("orders-0", "orders-1", "users-0"):
        listed[f"{LOG}.{name}"] = of_logs

    assert {group: list(values) for group, values in metrics.items()} == listed
    assert not any(metrics[f"{LOG}.orders-0"].values())
    world.cluster.close()


def test_logs_tell_their_sizes_and_offsets() -> None:
    """After appends, rolls, and a start that a client has moved."""
    world = World(topics={})
    world.cluster.create_topic("users", 1, settings={"internal.segment.bytes": "250"})
    sizes = [produce(world, "users", (b"k", bytes(100))) for _ in range(4)]
    partition = world.cluster._kprod.engine.partition("users", 0)
    partition.log.raise_start(1)

    assert world.cluster.metrics()["Log.users-0"] == {
        "Size": sum(sizes),
        "NumLogSegments": 4,
        "LogStartOffset": 1,
        "LogEndOffset": 4,
    }
    world.cluster.close()


@pytest.mark.parametrize("is_durable", [False, True])
def test_flushes_are_counted(tmp_path: Path, is_durable: bool) -> None:
    """Each append with `flush.messages=1`, where there is something to sync."""
    world = World(topics={}, data_dir=tmp_path if is_durable else None)
    world.cluster.create_topic("orders", 1, settings={"flush.messages": "1"})
    for _ in range(5):
        produce(world, "orders", (b"k", b"v"))

    # The first append makes a segment, which is synced in the background as well.
    counts = {5.0, 6.0} if is_durable else {0.0}
    assert world.cluster.metrics()[FLUSHES]["Count"] in counts
    world.cluster.close()


def test_a_flush_takes_the_time_until_its_end() -> None:
    """Number, rate, mean and maximum, as Kafka's timer has them; all 0 before the first."""
    clock = ManualClock()
    stats = FlushStats(clock)
    assert stats.metrics() == {"Count": 0, "MeanRate": 0.0, "Mean": 0.0, "Max": 0.0}
    for elapsed_ms in (10, 30):
        start_ns = stats.begin()
        clock.advance(elapsed_ms)
        stats.end(start_ns)
    clock.advance(1_960)

    assert stats.metrics() == {"Count": 2, "MeanRate": 1.0, "Mean": 20.0, "Max": 30.0}


def test_a_failed_directory_is_counted(tmp_path: Path) -> None:
    """One of two; a flush that fails is none."""
    directories = [tmp_path / "1", tmp_path / "2"]
    world = World(brokers=1, topics={}, data_dirs=directories)
    world.cluster.create_topic("orders", 2)
    assert world.cluster.metrics()["LogManager"]["OfflineLogDirectoryCount"] == 0
    world.cluster.faults.fail_directory(str(directories[0]))
    for index in (0, 1):
        world.client().produced(batch(1), topic="orders", partition=index)

    metrics = world.cluster.metrics()

    assert metrics["LogManager"]["OfflineLogDirectoryCount"] == 1
    assert metrics["Log.orders-1"]["LogEndOffset"] == 1
    world.cluster.close()


def test_a_round_of_compaction_tells_what_it_did() -> None:
    """The last one counts; afterwards nothing is dirty."""
    world = World(topics={}, config=EmbeddedConfig(cleaner_dedupe_buffer_size=24_000))
    world.cluster.create_topic("users", 1, settings=COMPACT)
    for number in range(100):
        produce(world, "users", (b"k%d" % (number % 10), b"%d" % number))
    log = world.cluster._kprod.engine.partition("users", 0).log
    manager = world.cluster.metrics()["LogCleanerManager"]
    assert manager["max-dirty-percent"] == 100
    assert manager["uncleanable-partitions-count"] == manager["uncleanable-bytes"] == 0

    summary = world.cluster.compact("users")[0]

    metrics = world.cluster.metrics()
    assert metrics["LogCleanerManager"]["max-dirty-percent"] == 0
    assert metrics["LogCleaner"] == {
        "cleaner-recopy-percent": 100 * summary.kept_bytes / summary.read_bytes,
        "max-buffer-utilization-percent": pytest.approx(100 * 10 / 900),
        "max-clean-time-secs": 0.0,  # the clock stood still
    }
    assert 0 < metrics["LogCleaner"]["cleaner-recopy-percent"] < 20
    assert metrics["Log.users-0"]["Size"] == log.size_bytes == summary.kept_bytes
    world.cluster.close()


def test_the_cleaner_tells_how_long_it_takes_and_when_it_looked() -> None:
    """By the cluster's clock: a round that is slowed down, and the time since the last search."""
    config = EmbeddedConfig(cleaner_backoff_ms=BACK_OFF_MS, cleaner_io_max_bytes_per_second=1_024)
    world = World(topics={}, config=config)
    world.advance(300)
    assert world.cluster.metrics()["LogCleanerManager"]["time-since-last-run-ms"] == 300
    world.cluster.create_topic("users", 1, settings=COMPACT)
    for number in range(100):
        produce(world, "users", (b"k%d" % (number % 2), b"%d" % number))

    world.advance(BACK_OFF_MS)
    assert world.cluster.metrics()["LogCleanerManager"]["time-since-last-run-ms"] == 0
    cleaner = world.cluster._kprod.engine.state.cleaner
    elapsed_ms = 0
    while cleaner.is_busy:
        world.advance(100)
        elapsed_ms += 100

    metrics = world.cluster.metrics()
    assert metrics["LogCleaner"]["max-clean-time-secs"] == elapsed_ms / 1_000 > 5
    world.advance(40)
    since_ms = world.cluster.metrics()["LogCleanerManager"]["time-since-last-run-ms"]
    assert since_ms == metrics["LogCleanerManager"]["time-since-last-run-ms"] + 40
    world.cluster.close()
