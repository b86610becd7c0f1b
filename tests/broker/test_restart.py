"""A cluster with a directory: its records are there after a close, and after a kill."""

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster
from kprod.broker.partition_transactions import append_marker
from kprod.broker.rejection import DirectoryRejected
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.record.control import ControlType, EndMarker
from kprod.record.reader import read_batches
from tests.broker.world import TIMESTAMP_MS, World, batch, part


def topic_id_of(world: World, name: str) -> uuid.UUID:
    """The id that Metadata tells."""
    answer = world.client().ask(ApiKey.METADATA, 12, {"topics": [{"name": name}]})
    topic_id: uuid.UUID = answer["topics"][0]["topic_id"]
    return topic_id


@pytest.mark.parametrize("end", ["close", "kill"])
def test_everything_is_there_again(tmp_path: Path, end: str) -> None:
    """Topics with their ids and settings, records, offsets, high watermarks."""
    world = World(data_dir=tmp_path / "kept", topics={"orders": 2})
    world.cluster.create_topic("small", 1, settings={"max.message.bytes": "300"})
    client = world.client()
    assert [client.produced(batch(3))["base_offset"] for _ in range(4)] == [0, 3, 6, 9]
    topic_ids = [topic_id_of(world, name) for name in ("orders", "small")]
    before = world.cluster.batches("orders")
    epoch = world.cluster.describe("orders", 0).leader_epoch
    getattr(world.cluster, end)()

    world = World(data_dir=tmp_path / "kept", topics={"orders": 2})

    assert world.cluster.batches("orders") == before
    assert [topic_id_of(world, name) for name in ("orders", "small")] == topic_ids
    view = world.cluster.describe("orders", 0)
    assert (view.log_end_offset, view.high_watermark) == (12, 12)
    assert view.leader_epoch > epoch
    client = world.client()
    assert client.produced(batch(1))["base_offset"] == 12
    big = client.produced(batch(40), topic="small")
    assert big["error_code"] == ErrorCode.MESSAGE_TOO_LARGE
    world.cluster.close()


@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_retried_batch_is_a_duplicate_after_a_restart(tmp_path: Path, end: str) -> None:
    """A producer whose response was lost asks again; its id is given to nobody else."""
    world = World(data_dir=tmp_path, topics={"orders": 1})
    fields: dict[str, Any] = {"producer_id": new_producer_id(world), "producer_epoch": 0}
    sent = [batch(2, base_sequence=sequence, **fields) for sequence in (0, 2)]
    assert [world.client().produced(it)["base_offset"] for it in sent] == [0, 2]
    getattr(world.cluster, end)()

    world = World(data_dir=tmp_path, topics={"orders": 1})

    assert new_producer_id(world) > fields["producer_id"]
    again = world.client().produced(sent[1])
    assert (again["error_code"], again["base_offset"]) == (ErrorCode.NONE, 2)
    gap = world.client().produced(batch(1, base_sequence=9, **fields))
    assert gap["error_code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    following = world.client().produced(batch(1, base_sequence=4, **fields))
    assert following["base_offset"] == 4
    world.cluster.close()


@pytest.mark.parametrize("ends", [("close", "close"), ("kill", "close"), ("close", "kill")])
def test_transactions_outlive_restarts(tmp_path: Path, ends: tuple[str, str]) -> None:
    """Readers of committed records skip the aborted one, and wait at the open one."""
    world = World(data_dir=tmp_path, topics={"orders": 1})
    append_transactional(world, 1, base_sequence=0)
    append_transactional(world, 2, base_sequence=0)
    end_transaction(world, 2, ControlType.ABORT)
    end_transaction(world, 1, ControlType.COMMIT)
    append_transactional(world, 2, base_sequence=2)
    told = [{"producer_id": 2, "first_offset": 2}]
    for end in ends:
        before = fetched_committed(world)
        assert (before["last_stable_offset"], before["high_watermark"]) == (6, 8)
        assert before["aborted_transactions"] == told
        getattr(world.cluster, end)()
        world = World(data_dir=tmp_path, topics={"orders": 1})
        assert fetched_committed(world) == before

    end_transaction(world, 2, ControlType.ABORT)
    after = fetched_committed(world)
    assert after["last_stable_offset"] == after["high_watermark"] == 9
    assert after["aborted_transactions"] == [*told, {"producer_id": 2, "first_offset": 6}]
    world.cluster.close()


def test_an_epoch_without_a_leader_is_not_given_again(tmp_path: Path) -> None:
    """Clients were told of it when the last replica went; a crash must not take it back."""
    world = World(data_dir=tmp_path, topics={"orders": 1})
    world.client().produced(batch(1))
    for broker in (0, 1, 2):
        world.cluster.stop_broker(broker)
    epoch = world.cluster.describe("orders", 0).leader_epoch
    assert world.cluster.describe("orders", 0).leader_id == -1
    world.cluster.kill()

    world = World(data_dir=tmp_path, topics={"orders": 1})

    assert world.cluster.describe("orders", 0).leader_epoch > epoch
    world.cluster.close()


def test_nothing_is_appended_after_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch may be in the file: a retry must not be told that it is safe."""
    world = World(data_dir=tmp_path, topics={})
    world.cluster.create_topic("orders", 1, settings={"flush.messages": "1"})
    fields: dict[str, Any] = {"producer_id": new_producer_id(world), "producer_epoch": 0}
    sent = [batch(1, base_sequence=sequence, **fields) for sequence in (0, 1)]
    assert world.client().produced(sent[0])["error_code"] == ErrorCode.NONE

    def fail(disk: object, path: str) -> None:
        raise OSError(5, "no more", path, None, str(disk))

    with monkeypatch.context() as failing:
        failing.setattr("kprod.broker.log.system_disk.SystemDisk.sync", fail)
        assert world.client().produced(sent[1])["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(2):
        again = world.client().produced(sent[1])
        assert again["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.cluster.describe("orders", 0).high_watermark == 1
    world.cluster.kill()

    world = World(data_dir=tmp_path, topics={})
    again = world.client().produced(sent[1])
    assert (again["error_code"], again["base_offset"]) == (ErrorCode.NONE, 1)
    assert world.cluster.describe("orders", 0).high_watermark == 2
    world.cluster.close()


def test_loading_is_reported_partition_by_partition(tmp_path: Path) -> None:
    """A summary of the loaded ones and the number of all; an exception there ends the start."""
    world = World(data_dir=tmp_path, topics={"orders": 3})
    world.client().produced(batch(1))
    world.cluster.kill()
    reports: list[tuple[int, int, int]] = []
    cluster = EmbeddedCluster(3, data_dir=tmp_path)

    def fail(*_: object) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        EmbeddedCluster(3, data_dir=tmp_path).open(fail)
    cluster.open(
        lambda summary, count: reports.append(
            (summary.partition_count, summary.recovered_count, count)
        )
    )

    assert reports == [(1, 1, 3), (2, 1, 3), (3, 1, 3)]
    cluster.close()


def append_transactional(world: World, producer_id: int, *, base_sequence: int) -> None:
    """Append a batch of two records below the face that asks for a transactional id."""
    encoded = memoryview(
        bytearray(
            batch(
                2,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=base_sequence,
                is_transactional=True,
            )
        )
    )
    judged = next(read_batches(encoded))
    partition = world.cluster._kprod.engine.partition("orders", 0)
    world.cluster.call(lambda: partition.append(judged, encoded, TIMESTAMP_MS, acks=-1))


def end_transaction(world: World, producer_id: int, kind: ControlType) -> None:
    """Append a marker as a coordinator does."""
    partition = world.cluster._kprod.engine.partition("orders", 0)
    world.cluster.call(
        lambda: append_marker(
            partition,
            EndMarker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=TIMESTAMP_MS,
        )
    )


def fetched_committed(world: World) -> dict[str, Any]:
    """Return the records that a read_committed consumer gets from the partition's beginning."""
    entry = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [entry]}]
    body = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "isolation_level": 1,
        "topics": topics,
    }
    return part(world.client().ask(ApiKey.FETCH, 12, body))


def test_a_deleted_topic_does_not_come_back(tmp_path: Path) -> None:
    """Made again, it has another id and none of the old records."""
    world = World(data_dir=tmp_path, topics={"orders": 1})
    world.client().produced(batch(1))
    topic_id = topic_id_of(world, "orders")
    world.cluster.delete_topic("orders")
    world.cluster.create_topic("orders", 1)
    world.cluster.kill()

    world = World(data_dir=tmp_path, topics={})

    assert topic_id_of(world, "orders") != topic_id
    assert world.cluster.batches("orders") == {0: []}
    world.cluster.close()


def new_producer_id(world: World) -> int:
    """Ask for one."""
    answer = world.client().ask(
        ApiKey.INIT_PRODUCER_ID,
        4,
        {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
    )
    producer_id: int = answer["producer_id"]
    return producer_id


def test_a_directory_in_use_is_rejected(tmp_path: Path) -> None:
    """By a cluster of this process; after its end it is free."""
    first = World(data_dir=tmp_path)
    with pytest.raises(DirectoryRejected, match="locked by another cluster"):
        World(data_dir=tmp_path)
    first.cluster.close()

    World(data_dir=tmp_path).cluster.close()


HOLDER = """
import sys
from kprod.broker import EmbeddedCluster
with EmbeddedCluster(1, data_dir=sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_directory_of_another_process_is_rejected(tmp_path: Path) -> None:
    """While that process holds its lock; nothing in it changes."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        before = {it: it.stat().st_mtime_ns for it in tmp_path.rglob("*")}
        with pytest.raises(DirectoryRejected, match="locked by another process"):
            World(data_dir=tmp_path)
        assert {it: it.stat().st_mtime_ns for it in tmp_path.rglob("*")} == before
        holder.communicate(timeout=60)
    assert holder.returncode == 0

    World(brokers=1, data_dir=tmp_path).cluster.close()


def test_what_does_not_fit_the_directory_is_rejected(tmp_path: Path) -> None:
    """Another number of partitions, or fewer brokers than replicas; nothing is changed by it."""
    World(data_dir=tmp_path, topics={"orders": 2}).cluster.close()
    with pytest.raises(ConfigError, match="3 partitions, and has 2 on disk"):
        World(data_dir=tmp_path, topics={"orders": 3})
    with pytest.raises(DirectoryRejected, match=r"replicas on brokers \[2\]"):
        World(data_dir=tmp_path, brokers=2)

    world = World(data_dir=tmp_path, topics={"orders": 2})
    assert set(world.cluster.batches("orders")) == {0, 1}
    world.cluster.close()


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """Names that could be a partition's, and no word of a cluster: rejected by name."""
    (tmp_path / "holidays-2024").mkdir()
    (tmp_path / "holidays-2024" / "beach.jpg").write_bytes(b"sand")

    with pytest.raises(DirectoryRejected, match="holidays-2024"):
        World(data_dir=tmp_path)

    assert (tmp_path / "holidays-2024" / "beach.jpg").read_bytes() == b"sand"


def test_one_directory_or_several(tmp_path: Path) -> None:
    """Both together, or one twice, is a mistake."""
    with pytest.raises(ConfigError, match="both given"):
        EmbeddedCluster(data_dir=tmp_path, data_dirs=[tmp_path])
    with pytest.raises(ConfigError, match="twice"):
        EmbeddedCluster(data_dirs=[tmp_path, tmp_path])
    with pytest.raises(TypeError, match="data_dir="):
        EmbeddedCluster(data_dirs=str(tmp_path))
