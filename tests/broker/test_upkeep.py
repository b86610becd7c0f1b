"""Periodic work on a cluster's partitions, on a manual clock: retention, expiry of producers."""

from pathlib import Path
from typing import Any

import pytest

from kprod.broker import EmbeddedConfig, Rejected
from kprod.broker.upkeep import INITIAL_DELAY_MS, PRODUCER_EXPIRY_INTERVAL_MS
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch

CHECK_MS = 300_000
SETTINGS = {"retention.ms": "60000", "internal.segment.bytes": "200"}


def world_of(directory: Path | None, **config: Any) -> World:
    """A cluster with a topic whose segments hold one batch and go after a minute."""
    world = World(data_dir=directory, config=EmbeddedConfig(**config))
    if not world.cluster.loaded or "small" not in topics(world):
        world.cluster.create_topic("small", 1, settings=SETTINGS)
    return world


def topics(world: World) -> list[str]:
    """Names of all topics."""
    return [it.name for it in world.cluster._kprod.engine.state.topics]


def start_of(world: World) -> int:
    """First offset of the small topic."""
    return world.cluster.describe("small", 0).log_start_offset


@pytest.mark.parametrize("is_durable", [False, True])
def test_old_segments_go_when_they_are_looked_for(tmp_path: Path, is_durable: bool) -> None:
    """Every five minutes; all were due, so an empty segment is left."""
    world = world_of(tmp_path if is_durable else None)
    for _ in range(3):
        world.client().produced(batch(2), topic="small")

    world.advance(CHECK_MS - 1)
    assert start_of(world) == 0
    world.advance(1)
    assert start_of(world) == 6
    assert world.cluster.records("small") == {0: []}
    assert world.client().produced(batch(1), topic="small")["base_offset"] == 6
    world.cluster.close()


def test_an_empty_cluster_in_memory_waits_for_nothing() -> None:
    """No task is armed that has nothing to look at, before and after retention."""
    world = world_of(None)
    assert world.cluster.step(world.clock.now_ms()) is None
    world.client().produced(batch(1), topic="small")
    assert world.cluster.step(world.clock.now_ms()) is not None

    world.advance(CHECK_MS)
    world.advance(PRODUCER_EXPIRY_INTERVAL_MS)

    assert world.cluster.step(world.clock.now_ms()) is None


def test_deleted_files_are_there_for_a_while_and_then_gone(tmp_path: Path) -> None:
    """`file.delete.delay.ms`, by default a minute; a restart keeps the start."""
    world = world_of(tmp_path)
    for _ in range(3):
        world.client().produced(batch(2), topic="small")
    world.advance(CHECK_MS)
    deleted = list(tmp_path.glob("small-0/*.deleted"))
    assert len(deleted) >= 6
    world.advance(60_000)
    assert not list(tmp_path.glob("small-0/*.deleted"))
    world.cluster.kill()

    world = world_of(tmp_path)
    assert start_of(world) == 6
    world.cluster.close()


def test_retention_looks_soon_after_a_start(tmp_path: Path) -> None:
    """A broker that is restarted every minute would never come to it otherwise."""
    world = world_of(tmp_path)
    world.client().produced(batch(2), topic="small")
    world.cluster.close()
    world = world_of(tmp_path)
    world.clock.advance(60_001)

    world.advance(INITIAL_DELAY_MS)

    assert start_of(world) == 2
    world.cluster.close()


def test_retention_can_be_applied_now() -> None:
    """For tests that do not want to wait; the active segment ends first."""
    world = World()
    world.cluster.create_topic("small", 2, settings={"retention.ms": "60000"})
    for index in (0, 1):
        world.client(index).produced(batch(2), topic="small", partition=index)
    world.cluster.apply_retention("small")
    assert sum(map(len, world.cluster.records("small").values())) >= 2

    world.clock.advance(60_001)
    world.cluster.apply_retention("small")

    assert world.cluster.records("small") == {0: [], 1: []}
    with pytest.raises(Rejected, match="nowhere"):
        world.cluster.apply_retention("nowhere")


def test_memory_that_retention_gave_back_can_be_used() -> None:
    """The limit of all logs counts their present size."""
    world = world_of(None, log_bytes_max=1 << 20)
    records = batch(1)
    before = world.cluster._kprod.engine.state.log_bytes
    world.client().produced(records, topic="small")
    assert world.cluster._kprod.engine.state.log_bytes == before + len(records)

    world.advance(CHECK_MS)

    assert world.cluster._kprod.engine.state.log_bytes == before


def test_a_producer_that_is_silent_is_forgotten() -> None:
    """After `producer.id.expiration.ms` any sequence may come, as from an unknown one."""
    world = World(config=EmbeddedConfig(producer_id_expiration_ms=3_600_000))
    fields = {"producer_id": 9, "producer_epoch": 0}
    world.client().produced(batch(1, base_sequence=0, **fields))
    late = batch(1, base_sequence=7, **fields)
    assert world.client().produced(late)["error_code"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    world.advance(3_600_000 + PRODUCER_EXPIRY_INTERVAL_MS)

    assert world.client().produced(late)["error_code"] == ErrorCode.NONE


def test_a_batch_larger_than_a_segment_is_rejected() -> None:
    """It would never fit, whatever is rolled."""
    world = world_of(None)

    answer = world.client().produced(batch(20), topic="small")

    assert answer["error_code"] == ErrorCode.RECORD_LIST_TOO_LARGE
    assert "segment.bytes" in answer["error_message"]


@pytest.mark.parametrize("topic_ms", [None, "3000"])
def test_logs_are_synced_when_their_last_sync_is_old_enough(
    tmp_path: Path, topic_ms: str | None
) -> None:
    """Looked at every `log.flush.scheduler.interval.ms`; the topic's own `flush.ms` holds."""
    world = World(
        data_dir=tmp_path,
        config=EmbeddedConfig(flush_ms=1_000_000, flush_scheduler_interval_ms=1_000),
    )
    world.cluster.create_topic("small", 1, settings={"flush.ms": topic_ms} if topic_ms else {})
    log = world.cluster._kprod.engine.partition("small", 0).log
    world.client().produced(batch(2), topic="small")
    assert log.recovery_point == 0
    for _ in range(3):
        world.advance(1_000)
        assert log.recovery_point == 0
    world.advance(1_000)  # the first look was after one second
    assert log.recovery_point == (2 if topic_ms else 0)
    world.cluster.close()


def test_flush_ms_without_the_task_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka nobody looks at it then."""
    world = World()
    world.cluster.create_topic("small", 1, settings={"flush.ms": "10"})
    assert "the setting flush.ms of topics has no effect in this broker" in caplog.text
    world.cluster.close()
