"""The same seed gives the same files, byte for byte, with slices between the requests."""

import hashlib
import random

import pytest

from kprod.broker import EmbeddedConfig
from kprod.protocol.api import ApiKey
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.world import TIMESTAMP_MS, Client, World
from tests.oracle.record_v2 import encode_batch

SETTINGS = {
    "grown": {"internal.segment.bytes": "1500", "index.interval.bytes": "200"},
    "kept": {"internal.segment.bytes": "900", "retention.bytes": "2500"},
    "compacted": {
        "internal.segment.bytes": "900",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
    },
    "jittered": {"segment.ms": "5000", "segment.jitter.ms": "4000"},
}
STEPS = 150
SEEDS = range(3)


def files_of(seed: int) -> dict[str, str]:
    """Run a workload drawn by a seed; a digest of each file that is left."""
    disk, rng = CrashDisk(seed), random.Random(seed)
    for _ in range(2):  # a start of a new directory, and one of an old one
        world = World(
            data_dir="/kept",
            disk=disk,
            config=EmbeddedConfig(
                retention_check_interval_ms=2_000,
                cleaner_backoff_ms=500,
                flush_scheduler_interval_ms=1_500,
                flush_ms=1_000,
            ),
        )
        if world.cluster.loaded is None or not world.cluster.loaded.partition_count:
            for name, settings in SETTINGS.items():
                world.cluster.create_topic(name, 2, settings=settings)
        client = world.client()
        for number in range(STEPS):
            step(world, client, rng, number)
        world.cluster.close() if rng.random() < 0.5 else world.cluster.kill()
    return {
        path: hashlib.sha256(bytes(file.content)).hexdigest()
        for path, file in disk.names.items()
        if file is not None
    }


def step(world: World, client: Client, rng: random.Random, number: int) -> None:
    """Produce, delete records, cut, move the leader, or let time pass."""
    topic, partition = rng.choice(sorted(SETTINGS)), rng.randrange(2)
    kind = rng.choices(["produce", "time", "delete", "cut", "roll"], [20, 6, 1, 1, 1])[0]
    if kind == "produce":
        timestamp_ms = TIMESTAMP_MS + world.clock.now_ms() + rng.randrange(-50, 50)
        key = b"k%d" % rng.randrange(5)
        rows = [(timestamp_ms, key, b"v" * rng.randrange(80), ())] * rng.randrange(1, 4)
        client.produce(encode_batch(rows), topic=topic, partition=partition, acks=1)
        client.answers()
    elif kind == "time":
        world.advance(rng.randrange(1, 1_200))
    elif kind == "roll":
        world.cluster.apply_retention(topic)
    else:
        described = world.cluster.describe(topic, partition)
        offset = rng.randint(described.log_start_offset, described.log_end_offset)
        if kind == "cut":
            world.cluster.truncate(topic, partition, offset)
        else:
            entry = {"partition_index": partition, "offset": -1 if number % 2 else offset}
            topics = [{"name": topic, "partitions": [entry]}]
            client.send(ApiKey.DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": 1_000})
            client.answers()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_files(seed: int) -> None:
    """Segments, indexes, snapshots, checkpoints and metadata."""
    first = files_of(seed)
    kinds = {path.rpartition(".")[2] for path in first}
    assert {"log", "index", "timeindex", "snapshot", "json", "properties"} <= kinds
    assert files_of(seed) == first


def test_another_seed_gives_other_files() -> None:
    """So that the digests say something."""
    assert files_of(0) != files_of(1)
