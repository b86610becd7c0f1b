"""Several directories: where partitions lie, and that each directory has one of each checkpoint."""

import shutil
from pathlib import Path

from kprod.broker import EmbeddedConfig
from tests.broker.world import World, batch

LAYOUT = {
    "logs-1": [("t0", 0), ("t0", 1), ("t1", 2)],
    "logs-2": [("t0", 2), ("t1", 0), ("t1", 1)],
}
SETTINGS = {
    "t0": {"internal.segment.bytes": "200", "retention.bytes": "200", "retention.ms": "-1"},
    "t1": {"internal.segment.bytes": "200", "retention.ms": "200000"},
}
CHECK_MS, CHECKPOINT_MS = 300_000, 90_000


def opened(root: Path) -> World:
    """A cluster of one broker on both directories."""
    directories = [root / name for name in LAYOUT]
    return World(brokers=1, topics={}, config=EmbeddedConfig(), data_dirs=directories)


def partitions_in(directory: Path) -> list[str]:
    """Names of the partitions' directories."""
    return sorted(it.name for it in directory.iterdir() if it.is_dir())


def checkpoint(directory: Path, kind: str) -> dict[str, int]:
    """A checkpoint's offsets by partition."""
    version, count, *lines = (directory / kind).read_text().splitlines()
    assert version == "0"
    assert int(count) == len(lines)
    parts = [line.split() for line in lines]
    return {f"{topic}-{index}": int(offset) for topic, index, offset in parts}


def fill(world: World, batches: int) -> None:
    """Append batches of three records to every partition."""
    for topic in ("t0", "t1"):
        for index in range(3):
            for _ in range(batches):
                answer = world.client().produced(batch(3), topic=topic, partition=index)
                assert answer["error_code"] == 0


def ends(world: World) -> dict[str, int]:
    """The end of every partition."""
    return {
        f"{topic}-{index}": world.cluster.describe(topic, index).log_end_offset
        for topic in ("t0", "t1")
        for index in range(3)
    }


def test_two_directories_with_t0_0_t0_1_t1_2_and_t0_2_t1_0_t1_1(tmp_path: Path) -> None:
    """Loaded, recovered, flushed, checkpointed, cleaned up by time and by size.

    Each directory has one checkpoint file of a kind for all of its partitions.
    """
    world = opened(tmp_path)
    for topic, settings in SETTINGS.items():
        world.cluster.create_topic(topic, 3, settings=settings)
    fill(world, 1)
    world.cluster.close()
    for name, partitions in LAYOUT.items():
        for topic, index in partitions:
            (present,) = tmp_path.glob(f"*/{topic}-{index}")
            if present.parent.name != name:
                shutil.move(present, tmp_path / name / present.name)

    world = opened(tmp_path)  # loaded, each where it is
    assert ends(world) == dict.fromkeys(ends(world), 3)
    fill(world, 4)
    world.advance(CHECKPOINT_MS)
    for name, partitions in LAYOUT.items():
        wanted = sorted(f"{topic}-{index}" for topic, index in partitions)
        assert partitions_in(tmp_path / name) == wanted
        points = checkpoint(tmp_path / name, "recovery-point-offset-checkpoint")
        assert sorted(points) == wanted
        assert all(0 < point < 15 for point in points.values())  # the last segment is not synced
    world.cluster.kill()

    world = opened(tmp_path)  # recovered: one segment of each partition was checked
    assert world.cluster.loaded is not None
    assert world.cluster.loaded.recovered_count == 6
    assert ends(world) == dict.fromkeys(ends(world), 15)
    world.advance(CHECK_MS)  # cleaned up, t0 by size and t1 by time
    starts = {
        (topic, index): world.cluster.describe(topic, index).log_start_offset
        for topic in ("t0", "t1")
        for index in range(3)
    }
    assert {starts["t1", index] for index in range(3)} == {15}
    assert all(0 < starts["t0", index] < 15 for index in range(3))
    sizes = [sum(map(len, it)) for it in world.cluster.batches("t0").values()]
    assert all(200 <= size < 200 + 200 for size in sizes)
    world.cluster.close()  # flushed to the end
    for name, partitions in LAYOUT.items():
        points = checkpoint(tmp_path / name, "recovery-point-offset-checkpoint")
        assert points == {f"{topic}-{index}": 15 for topic, index in partitions}
        marks = checkpoint(tmp_path / name, "replication-offset-checkpoint")
        assert marks == points
