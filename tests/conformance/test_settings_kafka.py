"""Settings of topics and deleted records: the embedded broker answers as Apache Kafka does.

IncrementalAlterConfigs, AlterConfigs, DescribeConfigs, DeleteRecords, and what Produce rejects
because of a setting.
"""

from typing import Any

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.batches import NOW_MS, rows
from tests.conformance.sides import Side, Sides
from tests.conformance.wire import Target
from tests.oracle.record_v2 import encode_batch

TOPIC, OWN = 2, 1
SET, DELETE, APPEND, SUBTRACT = range(4)
BEFORE = {"cleanup_policy": "delete", "retention_ms": "5000", "segment_bytes": "2000000"}
KEPT = ["cleanup.policy", "retention.ms", "segment.bytes", "segment.ms"]
# Set by the Kafka of these tests for its whole cluster.
OF_THE_CLUSTER = {"min.insync.replicas", "retention.ms"}


def incremental(side: Side, name: str, *changes: tuple[str, int, str | None]) -> list[int]:
    """Change a topic's settings one by one; the code of each resource in the response."""
    configs = [
        {"name": setting, "config_operation": operation, "value": value}
        for setting, operation, value in changes
    ]
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": configs}
    answer = side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
    return [it["error_code"] for it in answer["responses"]]


def replaced(side: Side, name: str, *settings: tuple[str, str | None]) -> list[int]:
    """Replace a topic's settings; the code of each resource in the response."""
    configs = [{"name": setting, "value": value} for setting, value in settings]
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": configs}
    answer = side.ask(ApiKey.ALTER_CONFIGS, 2, {"resources": [resource]})
    return [it["error_code"] for it in answer["responses"]]


def told(side: Side, name: str, names: list[str] | None = None) -> dict[str, Any]:
    """Return settings from a DescribeConfigs response: value, source, kind, flags."""
    # Kafka's broker follows the controller's log: when it knows a later topic, it has the change.
    side.create("later", 1)
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": names}
    answer = side.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]})
    (result,) = answer["results"]
    assert result["error_code"] == ErrorCode.NONE
    fields = ("value", "config_source", "config_type", "read_only", "is_sensitive")
    return {
        it["name"]: [it[field] for field in fields]
        for it in result["configs"]
        if it["name"] not in OF_THE_CLUSTER or it["config_source"] == OWN
    }


@pytest.mark.parametrize(
    "changes",
    [
        [("retention.ms", SET, "7000")],
        [("retention.ms", DELETE, None), ("segment.ms", SET, "9")],
        [("retention.ms", DELETE, "ignored")],
        [("min.insync.replicas", DELETE, None)],
        [("cleanup.policy", APPEND, "compact")],
        [("cleanup.policy", APPEND, "delete")],
        [("cleanup.policy", APPEND, "compact,delete")],
        [("cleanup.policy", SUBTRACT, "delete")],
        [("cleanup.policy", SUBTRACT, "compact")],
        [("cleanup.policy", SET, " compact , delete ")],
        [("cleanup.policy", SET, "")],
        [("cleanup.policy", SET, "delete,delete")],
        [("cleanup.policy", SET, "nonsense")],
        [("retention.ms", APPEND, "1")],
        [("retention.ms", SUBTRACT, "5000")],
        [("retention.ms", SET, None)],
        [("cleanup.policy", APPEND, None)],
        [("no.such.setting", SET, "1")],
        [("no.such.setting", DELETE, None)],
        [("segment.bytes", SET, "1048575")],
        [("segment.bytes", SET, "2147483648")],
        [("segment.bytes", SET, " 1048576 ")],
        [("segment.bytes", SET, "1.5")],
        [("segment.bytes", SET, "")],
        [("retention.ms", SET, "-1")],
        [("retention.ms", SET, "-2")],
        [("retention.bytes", SET, "-7")],
        [("segment.index.bytes", SET, "3")],
        [("min.cleanable.dirty.ratio", SET, "1.01")],
        [("min.cleanable.dirty.ratio", SET, "1e-2")],
        [("preallocate", SET, "TRUE")],
        [("preallocate", SET, "yes")],
        [("compression.type", SET, "lzma")],
        [("compression.type", SET, "gzip")],
        [("message.timestamp.type", SET, "logappendtime")],
        [("max.compaction.lag.ms", SET, "5"), ("min.compaction.lag.ms", SET, "6")],
        [("max.compaction.lag.ms", SET, "0")],
        [("retention.ms", SET, "8"), ("retention.ms", SET, "9")],
        [("retention.ms", SET, "8"), ("segment.ms", SET, "x")],
        [],
    ],
    ids=str,
)
def test_incremental_changes(sides: Sides, changes: list[tuple[str, int, str | None]]) -> None:
    """The same code, and the same settings afterwards."""

    def case(side: Side) -> Any:
        target = side.create("settings", 1, **BEFORE)
        codes = incremental(side, target.topic, *changes)
        after = told(side, target.topic, [*KEPT, "retention.bytes", "min.cleanable.dirty.ratio"])
        return codes, after

    assert sides.agreed(case)


@pytest.mark.parametrize(
    "settings",
    [
        [("segment.ms", "9")],
        [("segment.ms", "9"), ("segment.ms", "8")],
        [("segment.ms", None)],
        [("no.such.setting", "1")],
        [("segment.ms", "0")],
        [],
    ],
    ids=str,
)
def test_replaced_settings(sides: Sides, settings: list[tuple[str, str | None]]) -> None:
    """Those that are not named are the cluster's again."""

    def case(side: Side) -> Any:
        target = side.create("settings", 1, **BEFORE)
        return replaced(side, target.topic, *settings), told(side, target.topic, KEPT)

    assert sides.agreed(case)


def test_all_settings_of_a_topic_are_told(sides: Sides) -> None:
    """The same names, values, kinds and sources."""
    assert sides.agreed(lambda side: told(side, side.create("settings", 1, **BEFORE).topic))


@pytest.mark.parametrize("kind", [0, 1, TOPIC, 3, 5, 8, 77])
@pytest.mark.parametrize("name", ["no-such-topic", "", "a b"])
def test_resources_that_are_not_there(sides: Sides, kind: int, name: str) -> None:
    """By both requests; a broker's settings cannot be changed here."""

    def case(side: Side) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configs": []}
        answers = [
            side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]}),
            side.ask(ApiKey.ALTER_CONFIGS, 2, {"resources": [resource]}),
        ]
        return [[it["error_code"] for it in answer["responses"]] for answer in answers]

    assert sides.agreed(case)


def test_a_resource_twice(sides: Sides) -> None:
    """Neither is changed."""

    def case(side: Side) -> Any:
        target = side.create("settings", 1, **BEFORE)
        changes = [{"name": "segment.ms", "config_operation": SET, "value": "9"}]
        resource = {"resource_type": TOPIC, "resource_name": target.topic, "configs": changes}
        body = {"resources": [resource, resource]}
        answer = side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)
        codes = [it["error_code"] for it in answer["responses"]]
        return codes, told(side, target.topic, KEPT)

    assert sides.agreed(case)


def test_a_change_that_is_only_checked(sides: Sides) -> None:
    """A good one is not made, a bad one is rejected."""

    def case(side: Side) -> Any:
        target = side.create("settings", 1, **BEFORE)
        codes = []
        for value in ("9", "0"):
            changes = [{"name": "segment.ms", "config_operation": SET, "value": value}]
            resource = {"resource_type": TOPIC, "resource_name": target.topic, "configs": changes}
            body = {"resources": [resource], "validate_only": True}
            answer = side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)
            codes += [it["error_code"] for it in answer["responses"]]
        return codes, told(side, target.topic, KEPT)

    assert sides.agreed(case)


def delete(side: Side, target: Target, offset: int) -> tuple[int, int]:
    """Ask for the records below an offset to go; the code and the low watermark."""
    entry = {"partition_index": target.partition, "offset": offset}
    topics = [{"name": target.topic, "partitions": [entry]}]
    answer = side.ask(ApiKey.DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": 10_000})
    (topic,) = answer["topics"]
    (part,) = topic["partitions"]
    return part["error_code"], part["low_watermark"]


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 3, 4, 6, 7, 2**62])
@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete", ""])
def test_deleted_records(sides: Sides, policy: str, offset: int) -> None:
    """The low watermark, the first offset, the records that are left; then a second request."""

    def case(side: Side) -> Any:
        target = side.create("deleted", cleanup_policy=policy)
        for _ in range(2):
            answer = side.produce(target, encode_batch(rows()))
            assert answer["error_code"] == ErrorCode.NONE, answer
        first = delete(side, target, offset)
        earliest = side.offset(target, -2)["offset"]
        (topic,) = side.fetch(target, max(earliest - 1, 0))["responses"]
        (part,) = topic["partitions"]
        left = side.fetch(target, earliest)["responses"][0]["partitions"][0]
        return first, earliest, part["error_code"], len(left["records"]), delete(side, target, 2)

    assert sides.agreed(case)


@pytest.mark.parametrize("name", ["no-such-topic", "", "a b"])
def test_records_of_unknown_topics(sides: Sides, name: str) -> None:
    """Answered for each partition."""

    def case(side: Side) -> Any:
        return delete(side, Target(name, side.create("known").topic_id), 0)

    assert sides.agreed(case)


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"cleanup_policy": "compact"}, {"key": None}),
        ({"cleanup_policy": "compact,delete"}, {"key": None}),
        ({"cleanup_policy": "delete"}, {"key": None}),
        ({"cleanup_policy": "compact"}, {"key": b"k", "value": None}),
        ({"message_timestamp_before_max_ms": "1000000"}, {"ago_ms": 2_000_000}),
        ({"message_timestamp_before_max_ms": "4000000"}, {"ago_ms": 2_000_000}),
        ({"message_timestamp_after_max_ms": "1000000"}, {"ago_ms": -2_000_000}),
        ({"message_timestamp_after_max_ms": "4000000"}, {"ago_ms": -2_000_000}),
        (
            {"message_timestamp_before_max_ms": "0", "message_timestamp_type": "LogAppendTime"},
            {"ago_ms": 2_000_000},
        ),
        ({"cleanup_policy": "compact", "message_timestamp_before_max_ms": "0"}, {"key": None}),
        (
            {"cleanup_policy": "compact", "message_timestamp_before_max_ms": "1000"},
            {"key": None, "ago_ms": 2_000_000},
        ),
        ({"internal_segment_bytes": "100"}, {"value": b"v" * 200}),
        ({"max_message_bytes": "100"}, {"value": b"v" * 200}),
    ],
    ids=str,
)
def test_records_that_a_setting_rejects(
    sides: Sides, settings: dict[str, str], fields: dict[str, Any]
) -> None:
    """The code, and which records are named."""

    def case(side: Side) -> Any:
        target = side.create("strict", 1, **settings)
        timestamp_ms = NOW_MS - fields.get("ago_ms", 0)
        key, value = fields.get("key", b"k"), fields.get("value", b"v")
        good, bad = (NOW_MS, b"k", b"v", ()), (timestamp_ms, key, value, ())
        answer = side.produce(target, encode_batch([good, bad, good]))
        return answer["error_code"], [it["batch_index"] for it in answer["record_errors"]]

    assert sides.agreed(case)


@pytest.mark.parametrize("includes", [False, True])
def test_synonyms(sides: Sides, includes: bool) -> None:
    """Where a value comes from, and what would hold without it; only if they are asked for."""

    def case(side: Side) -> Any:
        target = side.create("synonyms", 1, **BEFORE)
        side.create("later", 1)
        resource = {
            "resource_type": TOPIC,
            "resource_name": target.topic,
            "configuration_keys": None,
        }
        body = {"resources": [resource], "include_synonyms": includes}
        (result,) = side.ask(ApiKey.DESCRIBE_CONFIGS, 4, body)["results"]
        return {
            it["name"]: [(syn["name"], syn["value"], syn["source"]) for syn in it["synonyms"]]
            for it in result["configs"]
            if it["name"] not in OF_THE_CLUSTER
        }

    assert any(sides.agreed(case).values()) == includes
