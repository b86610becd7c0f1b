"""Settings that are changed: they hold from then on, are kept, and are warned of once."""

import logging
from pathlib import Path

import pytest

from kprod.broker import EmbeddedConfig
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import TIMESTAMP_MS, Client, World, batch
from tests.oracle.record_v2 import encode_batch

SET, DELETE = 0, 1


def change(client: Client, *changes: tuple[str, int, str | None], name: str = "orders") -> int:
    """Change a topic's settings; the code."""
    configs = [
        {"name": setting, "config_operation": operation, "value": value}
        for setting, operation, value in changes
    ]
    resource = {"resource_type": 2, "resource_name": name, "configs": configs}
    body = {"resources": [resource]}
    (answer,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)["responses"]
    code: int = answer["error_code"]
    return code


def test_a_changed_setting_acts_at_once() -> None:
    """On the next batch, in both directions."""
    client = World().client()
    assert client.produced(batch(3))["error_code"] == ErrorCode.NONE

    assert change(client, ("max.message.bytes", SET, "50")) == ErrorCode.NONE
    assert client.produced(batch(3))["error_code"] == ErrorCode.MESSAGE_TOO_LARGE
    assert change(client, ("max.message.bytes", DELETE, None)) == ErrorCode.NONE
    assert client.produced(batch(3))["error_code"] == ErrorCode.NONE


def test_a_changed_segment_size_ends_segments(tmp_path: Path) -> None:
    """At the next append; a changed retention at its next task."""
    world = World(data_dir=tmp_path, config=EmbeddedConfig(retention_check_interval_ms=1_000))
    client = world.client()
    for _ in range(2):
        client.produced(batch(3))
    change(client, ("internal.segment.bytes", SET, "120"), ("retention.bytes", SET, "150"))
    for _ in range(2):
        client.produced(batch(3))
    assert len(list(tmp_path.glob("orders-0/*.log"))) == 3

    world.advance(1_000)

    assert len(list(tmp_path.glob("orders-0/*.log"))) == 2
    world.cluster.close()


@pytest.mark.parametrize("end", ["close", "kill"])
def test_changed_settings_are_kept(tmp_path: Path, end: str) -> None:
    """Written down before the response."""
    world = World(data_dir=tmp_path)
    change(world.client(), ("max.message.bytes", SET, "50"))
    getattr(world.cluster, end)()

    world = World(data_dir=tmp_path)
    assert world.client().produced(batch(3))["error_code"] == ErrorCode.MESSAGE_TOO_LARGE
    world.cluster.close()


def test_a_setting_without_effect_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The warning comes when a topic is created with it or gets it; others are not warned of."""
    world = World()
    with caplog.at_level(logging.WARNING, "kprod.broker"):
        world.cluster.create_topic("a", 1, settings={"preallocate": "true", "segment.ms": "9"})
        world.cluster.create_topic("b", 1, settings={"preallocate": "true"})
        change(world.client(), ("preallocate", SET, "false"), ("compression.type", SET, "gzip"))
        world.cluster.create_topic("c", 1, settings={"remote.storage.enable": "false"})

    warned = [it.getMessage() for it in caplog.records]
    assert len(warned) == 2
    assert "preallocate" in warned[0]
    assert "compression.type" in warned[1]


def test_the_text_of_changed_settings_is_bounded() -> None:
    """Together with those of all topics; a shorter text gives room back."""
    client = World(config=EmbeddedConfig(topic_settings_bytes_max=1_000)).client()
    name = "leader.replication.throttled.replicas"

    codes = [change(client, (name, SET, "1:2," * size)) for size in (200, 300, 10, 100)]

    assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE, ErrorCode.NONE]


def test_a_change_that_cannot_be_written_down_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither now nor at the next start."""
    world = World(data_dir=tmp_path)
    client = world.client()

    def fail(disk: object, path: str) -> None:
        raise OSError(28, "no space", path, None, str(disk))

    with monkeypatch.context() as failing:
        failing.setattr("kprod.broker.log.system_disk.SystemDisk.create", fail)
        code = change(client, ("max.message.bytes", SET, "50"))
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produced(batch(3))["error_code"] == ErrorCode.NONE
    assert change(client, ("segment.ms", SET, "9")) == ErrorCode.NONE
    world.cluster.close()

    world = World(data_dir=tmp_path)
    assert world.client().produced(batch(3))["error_code"] == ErrorCode.NONE
    world.cluster.close()


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_record_without_a_key_is_rejected_where_keys_are_compacted(policy: str) -> None:
    """From the change on; the record is named."""
    client = World().client()
    encoded = encode_batch([(TIMESTAMP_MS, b"k", b"v", ()), (TIMESTAMP_MS, None, b"v", ())])
    assert client.produced(encoded)["error_code"] == ErrorCode.NONE

    change(client, ("cleanup.policy", SET, policy))

    answer = client.produced(encoded)
    assert answer["error_code"] == ErrorCode.INVALID_RECORD
    assert [it["batch_index"] for it in answer["record_errors"]] == [1]
