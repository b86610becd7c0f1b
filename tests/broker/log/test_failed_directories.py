"""One of two directories fails: its partitions are offline, the others are served (I11)."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedConfig
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.world import World, batch, part

# In order of creation: 0 and 2 are in the first directory, 1 in the second; of the other topic 0 is
# in the second, 1 in the first.
TOPIC, OLD = "orders", "events"
FIRST, SECOND = "/logs-1", "/logs-2"
FACTS, MARK = "kprod-metadata.json", ".kafka_cleanshutdown"
LOST, KEPT = 0, 1
SAFE = {TopicPartition(TOPIC, 1), TopicPartition(OLD, 0)}
SETTINGS = {
    "internal.segment.bytes": "200",
    "cleanup.policy": "compact",
    "flush.messages": "3",
    "min.cleanable.dirty.ratio": "0.01",
}
OLD_SETTINGS = {
    "internal.segment.bytes": "200",
    "retention.bytes": "100",
    "file.delete.delay.ms": "20000",
}
STEPS = 6
CALLS_MAX = 10_000
CHECKPOINT_MS = 60_000
CHECK_MS = 20_000


def opened(disk: CrashDisk) -> World:
    """A cluster of one broker on both directories."""
    config = EmbeddedConfig(cleaner_backoff_ms=1, retention_check_interval_ms=CHECK_MS)
    return World(brokers=1, topics={}, config=config, data_dirs=[FIRST, SECOND], disk=disk)


def made(disk: CrashDisk) -> World:
    """A cluster with a compacted topic of three partitions; the second directory has its facts.

    Returns:
        The cluster.
    """
    world = opened(disk)
    world.cluster.create_topic(TOPIC, 3, settings=SETTINGS)
    world.cluster.create_topic(OLD, 2, settings=OLD_SETTINGS)
    world.cluster.close()
    disk.rename(f"{FIRST}/{FACTS}", f"{SECOND}/{FACTS}")
    return opened(disk)


def produced(world: World, index: int, *, topic: str = TOPIC) -> tuple[int, int]:
    """Send a batch; its error code and offset."""
    answer = world.client().produced(batch(1), topic=topic, partition=index)
    return answer["error_code"], answer["base_offset"]


def described(world: World) -> dict[str, dict[str, Any]]:
    """The DescribeLogDirs response, by directory."""
    answer = world.client().ask(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None})
    return {it["log_dir"]: it for it in answer["results"]}


def work(world: World) -> dict[TopicPartition, list[int]]:
    """Write over rolls, flushes, checkpoints, rounds of compaction, retention and late removals.

    Returns:
        Offsets that were acknowledged, by partition.
    """
    names = [TopicPartition(TOPIC, index) for index in range(3)]
    names += [TopicPartition(OLD, index) for index in range(2)]
    acknowledged: dict[TopicPartition, list[int]] = {it: [] for it in names}
    for _ in range(STEPS):
        for name, offsets in acknowledged.items():
            code, offset = produced(world, name.partition, topic=name.topic)
            assert code in {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
            assert name not in SAFE or code == ErrorCode.NONE
            if code == ErrorCode.NONE:
                offsets.append(offset)
        world.advance(CHECKPOINT_MS // 4)
    return acknowledged


def check_log(world: World, name: TopicPartition, acknowledged: list[int]) -> None:
    """All that was acknowledged is there, but for what retention took; appends continue."""
    log = world.cluster.describe(name.topic, name.partition)
    next_offset = acknowledged[-1] + 1 if acknowledged else 0
    assert log.log_end_offset >= next_offset
    if name.topic == TOPIC and acknowledged:
        left = world.cluster.records(TOPIC)[name.partition]
        assert left[-1].offset == log.log_end_offset - 1  # all have one key
    assert produced(world, name.partition, topic=name.topic)[0] == ErrorCode.NONE


def failing(world: World) -> Any:
    """The first directory."""
    return world.cluster._kprod.engine.state.logs._directories[0]  # type: ignore[attr-defined]


def calls_of_the_work() -> int:
    """How many calls the first directory sees in `work`."""
    world = made(CrashDisk(0))
    world.cluster.faults.fail_directory(FIRST, after_ops=CALLS_MAX)
    work(world)
    assert world.cluster.describe(OLD, 1).log_start_offset > 0, "retention took nothing"
    left = failing(world)._disk._calls_left
    world.cluster.close()
    return CALLS_MAX - int(left)


def check_failures(first: int, step: int) -> None:
    """Let the n-th call fail; the other directory is served, and a restart has all records."""
    calls = calls_of_the_work()
    assert 60 < calls < CALLS_MAX
    for after_ops in range(first, calls, step):
        disk = CrashDisk(0)
        world = made(disk)
        world.cluster.faults.fail_directory(FIRST, after_ops=after_ops)
        acknowledged = work(world)
        assert failing(world).failure is not None
        assert all(len(acknowledged[it]) == STEPS for it in SAFE)
        assert world.cluster.metrics()["LogManager"]["OfflineLogDirectoryCount"] == 1
        world.cluster.close()

        world = opened(disk)
        for name, offsets in acknowledged.items():
            check_log(world, name, offsets)
        world.cluster.close()


@pytest.mark.slow
def test_a_call_that_fails_hurts_its_own_directory_alone() -> None:
    """Each 23rd call of a workload with all that writes, renames, removes and syncs."""
    check_failures(0, 23)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1, 23))
def test_each_call_that_fails_hurts_its_own_directory_alone(first: int) -> None:
    """All others."""
    check_failures(first, 23)


def test_a_failed_directory_is_told_in_every_api() -> None:
    """Produce, Fetch, ListOffsets, Metadata and DescribeLogDirs."""
    world = made(CrashDisk(0))
    for index in range(3):
        assert produced(world, index) == (ErrorCode.NONE, 0)
    world.cluster.faults.fail_directory(FIRST)
    for _ in range(2):
        assert produced(world, LOST)[0] == ErrorCode.KAFKA_STORAGE_ERROR
        assert produced(world, KEPT)[0] == ErrorCode.NONE
    client = world.client()

    fetched = client.fetched(0, topic=TOPIC)
    listing = {"partition_index": LOST, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": TOPIC, "partitions": [listing]}]
    listed = client.ask(
        ApiKey.LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": topics}
    )
    (topic,) = client.ask(ApiKey.METADATA, 9, {"topics": [{"name": TOPIC}]})["topics"]

    assert fetched["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert listed["topics"][0]["partitions"][0]["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    states = {
        it["partition_index"]: (it["error_code"], it["leader_id"], it["offline_replicas"])
        for it in topic["partitions"]
    }
    offline = (ErrorCode.LEADER_NOT_AVAILABLE, -1, [0])
    assert states == {0: offline, 1: (ErrorCode.NONE, 0, []), 2: offline}
    directories = described(world)
    assert directories[FIRST]["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert (directories[FIRST]["topics"], directories[FIRST]["total_bytes"]) == ([], -1)
    assert directories[SECOND]["error_code"] == ErrorCode.NONE
    left = {it["name"]: it["partitions"] for it in directories[SECOND]["topics"]}
    assert [it["partition_index"] for it in left[TOPIC]] == [KEPT]
    world.cluster.close()


def test_requests_that_wait_are_told() -> None:
    """A fetch that waits for records of a partition whose directory fails is answered."""
    world = made(CrashDisk(0))
    reader = world.client()
    correlation_id = reader.fetch(0, topic=TOPIC, max_wait_ms=10_000)
    assert not reader.answers()
    world.cluster.faults.fail_directory(FIRST)
    assert produced(world, LOST)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    world.step()

    assert part(reader.answers()[correlation_id])["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    world.cluster.close()


def test_a_follower_tells_it_too() -> None:
    """Where brokers have racks: to a fetch that waits there, and to the next one."""
    world = World(
        topics={},
        config=EmbeddedConfig(racks=("a", "b", "b")),
        data_dirs=[FIRST, SECOND],
        disk=CrashDisk(0),
    )
    world.cluster.create_topic(TOPIC, 1)
    leader_id = world.cluster.describe(TOPIC, LOST).leader_id
    follower_id = (leader_id + 1) % 3
    leader, follower = world.client(leader_id), world.client(follower_id)
    assert leader.produced(batch(1), topic=TOPIC)["error_code"] == ErrorCode.NONE
    assert follower.fetched(0, topic=TOPIC, rack="b")["records"]
    waiting = follower.fetch(1, topic=TOPIC, rack="b", max_wait_ms=10_000)
    assert waiting not in follower.answers()

    world.cluster.faults.fail_directory(FIRST)
    assert leader.produced(batch(1), topic=TOPIC)["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    world.step()

    assert part(follower.answers()[waiting])["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    again = follower.fetched(0, topic=TOPIC, rack="b")
    assert again["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    world.cluster.close()


def test_new_partitions_go_to_the_other_directory() -> None:
    """Even if it has more of them."""
    disk = CrashDisk(0)
    world = made(disk)
    world.cluster.faults.fail_directory(FIRST)
    assert produced(world, LOST)[0] == ErrorCode.KAFKA_STORAGE_ERROR

    world.cluster.create_topic("more", 3)

    assert sum(it.name.startswith("more-") for it in disk.entries(SECOND)) == 3
    assert world.client().produced(batch(1), topic="more", partition=2)["error_code"] == 0
    world.cluster.close()


def test_no_broker_leads_a_partition_that_is_offline() -> None:
    """Neither by a test's wish nor when a broker comes back; a restart heals it."""
    disk = CrashDisk(0)
    world = made(disk)
    assert produced(world, LOST) == (ErrorCode.NONE, 0)
    world.cluster.faults.fail_directory(FIRST)
    assert produced(world, LOST)[0] == ErrorCode.KAFKA_STORAGE_ERROR

    world.cluster.stop_broker(0)
    world.cluster.start_broker(0)

    assert world.cluster.describe(TOPIC, LOST).leader_id == -1
    assert world.cluster.describe(TOPIC, KEPT).leader_id == 0
    world.cluster.close()
    assert not disk.exists(f"{FIRST}/{MARK}")
    assert disk.exists(f"{SECOND}/{MARK}")
    world = opened(disk)
    assert world.cluster.loaded is not None
    assert world.cluster.loaded.recovered_count > 0
    assert produced(world, LOST) == (ErrorCode.NONE, 1)
    world.cluster.close()


def test_close_fails_when_all_directories_have() -> None:
    """And says which, and by what."""
    world = made(CrashDisk(0))
    for name, index in ((FIRST, LOST), (SECOND, KEPT)):
        world.cluster.faults.fail_directory(name)
        assert produced(world, index)[0] == ErrorCode.KAFKA_STORAGE_ERROR

    with pytest.raises(OSError, match=f"all directories have failed, {FIRST}"):
        world.cluster.close()


def test_a_directory_of_nobody_cannot_fail() -> None:
    """The error names those that can."""
    world = made(CrashDisk(0))
    with pytest.raises(ValueError, match=f"none of the cluster's directories: {FIRST}"):
        world.cluster.faults.fail_directory("/elsewhere")
    world.cluster.close()
    world = World(topics={})
    with pytest.raises(ValueError, match="in memory"):
        world.cluster.faults.fail_directory("/elsewhere")


def answered(world: World, topic: str) -> int:
    """The error code of one batch."""
    code: int = world.client().produced(batch(1), topic=topic)["error_code"]
    return code


def test_a_full_disk_is_such_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that meets ENOSPC: the directory is offline; the only one is tried again.

    A disk that was full may have room later, and there is no other partition to save.
    """
    several = [tmp_path / "1", tmp_path / "2"]
    for directories, offline in ((several, ErrorCode.KAFKA_STORAGE_ERROR), (several[:1], 0)):
        name = f"orders-of-{len(directories)}"
        world = World(brokers=1, topics={name: 1}, data_dirs=directories)
        assert answered(world, name) == ErrorCode.NONE

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr("kprod.broker.log.system_disk.SystemDisk.write", fail)
            assert answered(world, name) == ErrorCode.KAFKA_STORAGE_ERROR
        assert answered(world, name) == offline
        world.cluster.kill()
        for directory in directories:
            shutil.rmtree(directory)
