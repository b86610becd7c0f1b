"""Replays of `__consumer_offsets`: records of transactions, of older versions, and of no use."""

import struct
import uuid
from collections.abc import Sequence

import pytest

from kprod.broker.group.records import (
    LogRecord,
    Offset,
    OffsetKey,
    decoded,
    group_key,
    group_record,
    offset_key,
    offset_record,
)
from kprod.broker.partition_transactions import append_marker
from kprod.broker.replication import Partition
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import structure_codec
from kprod.protocol.error_table import ErrorCode
from kprod.record.control import ControlType, EndMarker
from kprod.record.reader import read_batches
from tests.broker.group.scripts import GROUP, Script
from tests.oracle.record_v2 import encode_batch

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
TIME_MS = 0x0102030405060708
KEY = OffsetKey(GROUP, "orders", 0)


def offsets_partition(script: Script) -> Partition:
    """The one partition of the offsets topic."""
    state = script.world.cluster._kprod.engine.state
    partition = state.topics.partition("__consumer_offsets", 0)
    assert partition is not None
    return partition


def appended(script: Script, records: Sequence[LogRecord], **fields: int | bool) -> None:
    """Append a batch to the offsets topic, as a broker before this one has."""
    rows = [(TIME_MS, key, value, ()) for key, value in records]
    encoded = memoryview(bytearray(encode_batch(rows, **fields)))  # type: ignore[arg-type]
    batch = next(read_batches(encoded))
    offsets_partition(script).append(batch, encoded, TIME_MS, acks=1)


def transactional(script: Script, offset: int, *, producer_id: int = 7, at: int = 0) -> None:
    """A commit of partition 0 in an open transaction."""
    record = offset_record(KEY, Offset(offset, -1, "", TIME_MS))
    appended(
        script,
        [record],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=at,
        is_transactional=True,
    )


def marked(script: Script, kind: ControlType, *, producer_id: int = 7) -> None:
    """The marker of a transaction."""
    append_marker(
        offsets_partition(script),
        EndMarker(kind, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=TIME_MS,
    )


def loaded(script: Script) -> dict[int, int]:
    """Move the coordinator, so that it replays; the committed offsets by partition."""
    script.world.cluster.move_coordinator(GROUP, to=1 - script.find())
    return {
        place.partition: it.offset
        for view in script.world.cluster.groups()
        for place, it in view.offsets.items()
    }


def fetched(script: Script, *, is_strict: bool) -> tuple[int, int]:
    """Error code and offset of partition 0."""
    topics = [{"name": "orders", "partition_indexes": [0]}]
    body = {"group_id": GROUP, "topics": topics, "require_stable": is_strict}
    answer = script.world.client(script.find()).ask(ApiKey.OFFSET_FETCH, 7, body)
    (partition,) = answer["topics"][0]["partitions"]
    return partition["error_code"], partition["committed_offset"]


def test_a_transaction_counts_from_its_marker() -> None:
    """Until then the offset is unstable for a request of stable ones."""
    script = Script(brokers=2)
    transactional(script, 5)
    assert loaded(script) == {}
    assert fetched(script, is_strict=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetched(script, is_strict=False) == (ErrorCode.NONE, -1)
    marked(script, ControlType.COMMIT)
    assert loaded(script) == {0: 5}
    assert fetched(script, is_strict=True) == (ErrorCode.NONE, 5)


def test_an_aborted_transaction_leaves_nothing() -> None:
    """Neither does one that was never ended."""
    script = Script(brokers=2)
    transactional(script, 5)
    marked(script, ControlType.ABORT)
    transactional(script, 6, producer_id=8)
    assert loaded(script) == {}


def test_a_late_marker_keeps_the_most_recent_offset() -> None:
    """The offset's place in the log decides, not that of the marker."""
    script = Script(brokers=2)
    transactional(script, 5)
    appended(script, [offset_record(KEY, Offset(9, -1, "", TIME_MS))])
    marked(script, ControlType.COMMIT)
    assert loaded(script) == {0: 9}


def test_a_tombstone_removes_pending_offsets_too() -> None:
    """A marker after it commits nothing."""
    script = Script(brokers=2)
    transactional(script, 5)
    appended(script, [(offset_key(KEY), None)])
    marked(script, ControlType.COMMIT)
    assert loaded(script) == {}


def test_open_transactions_keep_a_group_from_expiry_and_deletion() -> None:
    """Its offsets may come yet."""
    script = Script(
        brokers=2, offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000
    )
    transactional(script, 5)
    assert loaded(script) == {}
    script.world.advance(120_000)
    assert [it.group_id for it in script.world.cluster.groups()] == [GROUP]
    client = script.world.client(script.find())
    answer = client.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": [GROUP]})
    assert answer["results"][0]["error_code"] == ErrorCode.NON_EMPTY_GROUP


def test_records_of_no_use_are_skipped() -> None:
    """Types and versions that are not known, keys and values that are cut."""
    script = Script(brokers=2)
    good = offset_record(KEY, Offset(5, 1, "m", TIME_MS))
    assert good[1] is not None
    appended(
        script,
        [
            (struct.pack(">h", 3) + b"new", b"\0\0"),
            (struct.pack(">h", 99), None),
            (b"\0", b"x"),
            (b"", None),
            (group_key(GROUP), b"\x7f\xff"),
            (group_key(GROUP), b"\0\3\0"),
            (offset_key(KEY), good[1][:-3]),
            (offset_key(KEY)[:-1], good[1]),
            good,
        ],
    )
    assert loaded(script) == {0: 5}
    assert script.world.cluster.failures == ()


def test_a_leader_that_is_no_member() -> None:
    """Such a record does no harm: the first member leads, and the next join phase ends."""
    script = Script(brokers=2)
    (member,) = script.stable(1)
    view = script.world.cluster.group(GROUP)
    fields = {
        "protocol_type": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "nobody",
        "current_state_timestamp": TIME_MS,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": None,
                "client_id": "",
                "client_host": "/",
                "rebalance_timeout": -1,
                "session_timeout": 10_000,
                "subscription": b"",
                "assignment": b"",
            }
        ],
    }
    appended(script, [group_record(GROUP, fields)])
    loaded(script)
    assert script.world.cluster.group(GROUP).leader_id == view.leader_id
    script.world.cluster.rebalance(GROUP)
    again = script.member(broker=script.find())
    again.member_id = member.member_id
    again.join()
    assert again.take_join()["leader"] == member.member_id


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_is_read(version: int) -> None:
    """Fields that a version lacks have their defaults."""
    fields = {
        "offset": 5,
        "leader_epoch": 3,
        "metadata": "m",
        "commit_timestamp": TIME_MS,
        "expire_timestamp": 9,
        "topic_id": TOPIC_ID,
    }
    value = struct.pack(">h", version) + structure_codec("OffsetCommitValue", version).encode(
        fields
    )
    found = decoded(offset_key(KEY), value, 12)
    assert found is not None
    assert found[1] == Offset(
        5,
        3 if version >= 3 else -1,
        "m",
        TIME_MS,
        9 if version == 1 else -1,
        TOPIC_ID if version == 4 else uuid.UUID(int=0),
        12,
    )


def test_vectors_of_apache_kafka() -> None:
    """Keys and values byte for byte, as Kafka 4.3.1 wrote them."""
    assert group_key("gm").hex() == "00020002676d"
    key = OffsetKey("gm", "probe", 0)
    assert offset_key(key).hex() == "00010002676d000570726f626500000000"
    _, value = offset_record(key, Offset(5, 0, "m", TIME_MS, topic_id=TOPIC_ID))
    assert value is not None
    assert value.hex() == ("0004000000000000000500000000026d0102030405060708010010" + TOPIC_ID.hex)
    fields = {
        "protocol_type": "consumer",
        "generation": 2,
        "protocol": None,
        "leader": None,
        "current_state_timestamp": TIME_MS,
        "members": [],
    }
    _, value = group_record("gm", fields)
    assert value is not None
    assert value.hex() == "00030008636f6e73756d657200000002ffffffff010203040506070800000000"
