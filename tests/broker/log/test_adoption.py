"""Directories of another cluster are taken over as a whole, or rejected without a change."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.broker.internal_topics import OFFSETS_SETTINGS
from kprod.broker.rejection import DirectoryRejected
from kprod.errors import ConfigError
from tests.broker.log.crash_disk import CrashDisk, Stopped
from tests.broker.world import World, batch
from tests.oracle import message_set

FACTS, IDENTITY = "kprod-metadata.json", "meta.properties"
OTHER = "MkU3OEVBNTcwNTJENDM2Qg"
IDENTITY_OF_KAFKA = (
    f"version=1\ncluster.id={OTHER}\nnode.id=1\ndirectory.id=MkU3OEVBNTcwNTJENDM2Qg\n"
)
DAY_MS = 86_400_000
Spoil = Callable[[Path], object]


def made(directory: Path) -> list[bytes]:
    """A directory as Kafka leaves it: two topics, and no metadata but in its own log.

    Returns:
        The batches of the first topic's first partition.
    """
    world = World(brokers=1, topics={"orders": 3, "users": 1}, data_dir=directory)
    for topic, index in (("orders", 0), ("orders", 2), ("users", 0)):
        for _ in range(3):
            answer = world.client().produced(batch(2), topic=topic, partition=index)
            assert answer["error_code"] == 0
    batches = [bytes(it) for it in world.cluster.batches("orders")[0]]
    world.cluster.close()
    (directory / FACTS).unlink()
    (directory / IDENTITY).write_text(IDENTITY_OF_KAFKA)
    for name in ("__cluster_metadata-0", "__transaction_state-0"):
        shutil.copytree(directory / "users-0", directory / name)
    return batches


def content(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Each file with its time of change."""
    return {
        str(it.relative_to(directory)): (it.stat().st_mtime_ns, it.read_bytes())
        for it in directory.rglob("*")
        if it.is_file()
    }


def replace_magic(path: Path) -> None:
    """Let a segment begin with messages of before Kafka 0.11."""
    path.write_bytes(message_set.encode([(0, 1_700_000_000_000, b"k", b"v")], magic=1))


SPOILT: dict[str, tuple[Spoil, str]] = {
    "a gap": (
        lambda it: shutil.rmtree(it / "orders-1"),
        r"'orders' has partition 2, and no directory has its 1 partition \[1\]",
    ),
    "an older identity": (
        lambda it: (it / IDENTITY).write_text("version=0\nbroker.id=1\n"),
        "has version '0'; 1 is known",
    ),
    "an unreadable identity": (
        lambda it: (it / IDENTITY).write_bytes(bytes(range(256))),
        "cannot be read",
    ),
    "an identity that is too large": (
        lambda it: (it / IDENTITY).write_bytes(bytes(1 << 20)),
        "at most 65536 are allowed",
    ),
    "no topic id": (
        lambda it: (it / "orders-1" / "partition.metadata").unlink(),
        "orders-1 has no partition.metadata",
    ),
    "two topic ids": (
        lambda it: shutil.copy(it / "users-0" / "partition.metadata", it / "orders-2"),
        "'orders' have 2 different topic ids",
    ),
    "old records": (
        lambda it: replace_magic(it / "users-0" / f"{0:020d}.log"),
        "users-0 has records of magic 1",
    ),
    "nothing": (lambda it: (it / IDENTITY).unlink(), "nothing to adopt"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_cannot_be_adopted_is_rejected_without_a_change(tmp_path: Path, name: str) -> None:
    """By name, with all bytes and times as they were."""
    directory = tmp_path / "kafka"
    made(directory)
    spoil, text = SPOILT[name]
    spoil(directory)
    before = content(directory)

    with pytest.raises(DirectoryRejected, match=text):
        EmbeddedCluster(1, data_dir=directory, adopt=True).open()

    assert content(directory) == before


def test_a_directory_of_another_cluster_needs_the_wish(tmp_path: Path) -> None:
    """Without it nothing is changed, and the error says whose it is."""
    made(tmp_path)
    before = content(tmp_path)
    with pytest.raises(DirectoryRejected, match=f"is of cluster '{OTHER}'"):
        EmbeddedCluster(1, data_dir=tmp_path).open()
    assert content(tmp_path) == before


def test_a_missing_directory_is_not_made(tmp_path: Path) -> None:
    """A typing error in its name would begin an empty cluster."""
    with pytest.raises(DirectoryRejected, match="nothing to adopt"):
        EmbeddedCluster(1, data_dir=tmp_path / "kafak", adopt=True).open()
    assert not (tmp_path / "kafak").exists()
    with pytest.raises(ConfigError, match="needs data_dir"):
        EmbeddedCluster(1, adopt=True)


def test_adopted_topics_keep_their_records(tmp_path: Path) -> None:
    """However old they are: what the topic's retention was is not known."""
    batches = made(tmp_path)
    world = World(brokers=1, topics={}, data_dir=tmp_path, adopt=True)
    assert [bytes(it) for it in world.cluster.batches("orders")[0]] == batches
    assert sorted(world.cluster.records("orders")) == [0, 1, 2]
    world.cluster.create_topic("new", 1)
    assert world.cluster.describe("new", 0).leader_id == 0

    world.advance(30 * DAY_MS)
    world.advance(DAY_MS)
    for topic in ("orders", "users"):
        world.cluster.apply_retention(topic)

    assert [bytes(it) for it in world.cluster.batches("orders")[0]] == batches
    assert {it.name for it in tmp_path.iterdir() if it.name.startswith("__")} == {
        "__cluster_metadata-0",
        "__transaction_state-0",
    }
    world.cluster.close()


def test_the_directory_of_an_internal_topic_is_kept_aside_when_a_topic_needs_its_name(
    tmp_path: Path,
) -> None:
    """It is never removed."""
    made(tmp_path)
    world = World(brokers=1, topics={}, data_dir=tmp_path, adopt=True)
    before = content(tmp_path / "__transaction_state-0")

    world.cluster.create_topic("__transaction_state", 1)

    (aside,) = tmp_path.glob("__transaction_state-0.*-stray")
    assert content(aside) == before
    world.cluster.close()


def several(tmp_path: Path) -> list[Path]:
    """Two directories of one Kafka; each has some of the partitions."""
    paths = [tmp_path / "1", tmp_path / "2"]
    tmp_path.mkdir(exist_ok=True)
    made(paths[0])
    paths[1].mkdir()
    for name in (IDENTITY, "recovery-point-offset-checkpoint"):
        shutil.copy(paths[0] / name, paths[1])
    for name in ("orders-1", "users-0"):
        shutil.move(paths[0] / name, paths[1])
    return paths


def test_several_directories_are_adopted_together(tmp_path: Path) -> None:
    """One of them alone has a gap; both, in any order, have everything."""
    paths = several(tmp_path)
    with pytest.raises(DirectoryRejected, match="no directory has its"):
        EmbeddedCluster(1, data_dirs=paths[:1], adopt=True).open()
    world = World(brokers=1, topics={}, data_dirs=paths[::-1], adopt=True)
    assert len(world.cluster.records("users")[0]) == 6
    assert len(world.cluster.records("orders")[2]) == 6
    world.cluster.close()
    world = World(brokers=1, topics={}, data_dirs=paths, adopt=True)  # which they are already
    assert len(world.cluster.records("users")[0]) == 6
    world.cluster.close()


@pytest.mark.parametrize("whose", ["another Kafka's", "this cluster's", "of a topic of its own"])
def test_directories_of_several_clusters_are_rejected(tmp_path: Path, whose: str) -> None:
    """Nothing of them is changed."""
    paths = several(tmp_path)
    if whose == "another Kafka's":
        identity = paths[1] / IDENTITY
        identity.write_text(identity.read_text().replace(OTHER, "another"))
    else:
        shutil.rmtree(paths[1])
        topics = {"own": 1} if whose == "of a topic of its own" else {}
        World(brokers=1, topics=topics, data_dir=paths[1]).cluster.close()
        if not topics:
            (paths[1] / FACTS).unlink()
    before = content(tmp_path)

    with pytest.raises(DirectoryRejected, match="only directories of one cluster"):
        EmbeddedCluster(1, data_dirs=paths, adopt=True).open()

    after = content(tmp_path)
    after.pop("2/.lock", None)  # it is Kafka's, too
    before.pop("2/.lock", None)
    assert after == before


def copied(paths: list[Path], seed: int) -> CrashDisk:
    """The directories on a disk that can stop."""
    disk = CrashDisk(seed)
    for path in (paths[0].parent, *sorted(paths[0].parent.rglob("*"))):
        name = "/" + str(path.relative_to(paths[0].parent.parent))
        if path.is_dir():
            disk.make_directory(name)
        else:
            disk.create(name)
            disk.write(name, 0, path.read_bytes())
            disk.sync(name)
    for path in (paths[0].parent, *paths[0].parent.rglob("*")):
        if path.is_dir():
            disk.sync_directory("/" + str(path.relative_to(paths[0].parent.parent)))
    disk.sync_directory("/")
    disk.sync_directory("")
    return disk


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_an_adoption_that_was_interrupted_is_done_again(tmp_path: Path, seed: int) -> None:
    """At every call of the disk: the next adoption has all records."""
    paths = several(tmp_path / "logs")
    names = [f"/logs/{it.name}" for it in paths]

    def opened(disk: CrashDisk) -> World:
        return World(
            brokers=1, topics={}, config=EmbeddedConfig(), data_dirs=names, disk=disk, adopt=True
        )

    disk = copied(paths, seed)
    before = disk.calls
    opened(disk).cluster.kill()
    calls = disk.calls - before
    assert calls > 20
    for stop_after in range(1, calls):
        disk = copied(paths, seed)
        disk.stop_at = disk.calls + stop_after
        with pytest.raises(Stopped):
            opened(disk)
        disk.crash()
        world = opened(disk)
        assert len(world.cluster.records("users")[0]) == 6
        assert [len(it) for it in world.cluster.records("orders").values()] == [6, 0, 6]
        world.cluster.kill()


def test_groups_have_the_settings_of_their_topic(tmp_path: Path) -> None:
    """Since `__consumer_offsets` is compacted, whatever the cluster's default is."""
    made(tmp_path)
    shutil.copytree(tmp_path / "orders-1", tmp_path / "__consumer_offsets-0")
    world = World(brokers=1, topics={}, data_dir=tmp_path, adopt=True)
    topic = world.cluster._kprod.engine.topic("__consumer_offsets")
    assert topic.overrides == dict(OFFSETS_SETTINGS)
    assert topic.config.compacts
    world.cluster.close()
