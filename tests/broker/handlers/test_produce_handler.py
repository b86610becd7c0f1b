"""Produce: every rule that a batch or a request can break, and the response."""

import struct

import pytest

from kprod.broker import EmbeddedConfig
from kprod.model import Codec
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.record.message_set import write_message_set
from tests.broker.world import TIMESTAMP_MS, World, batch, part
from tests.oracle.crc32c import crc32c
from tests.oracle.record_v2 import encode_batch

TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000
NO_RECORDS = batch(0)


def damaged(records: bytes, at: int) -> bytes:
    """The same bytes with one changed."""
    return records[:at] + bytes([records[at] ^ 0x55]) + records[at + 1 :]


def recounted(records: bytes, count: int) -> bytes:
    """A batch that claims another number of records, with a right checksum."""
    return _sealed(records[:57] + struct.pack(">i", count) + records[61:])


def resealed(records: bytes, *, attributes: int) -> bytes:
    """A batch with other attributes, with a right checksum."""
    return _sealed(records[:21] + struct.pack(">h", attributes) + records[23:])


def stamped(*timestamps_ms: int) -> bytes:
    """A batch with a record for each timestamp."""
    return encode_batch([(timestamp_ms, b"k", b"v", []) for timestamp_ms in timestamps_ms])


def _sealed(records: bytes) -> bytes:
    return records[:17] + struct.pack(">I", crc32c(records[21:])) + records[21:]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"\0" * 10, ErrorCode.INVALID_RECORD),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch() + b"\0" * 20, ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch(), -1 % len(batch())), ErrorCode.CORRUPT_MESSAGE),
        (damaged(batch(), 17), ErrorCode.CORRUPT_MESSAGE),
        (batch()[:16] + b"\x01" + batch()[17:], ErrorCode.INVALID_RECORD),
        (batch()[:16] + b"\x07" + batch()[17:], ErrorCode.CORRUPT_MESSAGE),
        (NO_RECORDS, ErrorCode.INVALID_RECORD),
        (recounted(batch(2), 3), ErrorCode.INVALID_RECORD),
        (recounted(batch(2), 1), ErrorCode.INVALID_RECORD),
        (batch(base_offset=5), ErrorCode.INVALID_RECORD),
        (batch(2, offset_deltas=[0, 2], last_offset_delta=1), ErrorCode.INVALID_RECORD),
        (batch(is_control=True), ErrorCode.INVALID_RECORD),
        (batch(producer_id=7, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (batch(producer_id=7, base_sequence=0), ErrorCode.INVALID_RECORD),
        (batch(is_log_append_time=True), ErrorCode.INVALID_TIMESTAMP),
        (stamped(TIMESTAMP_MS, TIMESTAMP_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
        (
            encode_batch(
                [(TIMESTAMP_MS + TEN_YEARS_MS, b"k", b"v", [])], max_timestamp_ms=TIMESTAMP_MS
            ),
            ErrorCode.INVALID_TIMESTAMP,
        ),
        (recounted(batch(2), -1), ErrorCode.INVALID_RECORD),
        (recounted(batch(2), 1_000), ErrorCode.INVALID_RECORD),
        (recounted(batch(2), 2**31 - 1), ErrorCode.INVALID_RECORD),
        (batch(last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (batch(base_offset=2**63 - 1), ErrorCode.INVALID_RECORD),
        (batch() + recounted(batch(), -1), ErrorCode.INVALID_RECORD),
        (damaged(recounted(batch(2), -1), 17), ErrorCode.CORRUPT_MESSAGE),
        (batch()[:8] + b"\x7f\xff\xff\xff" + batch()[12:], ErrorCode.UNKNOWN_SERVER_ERROR),
        (resealed(batch(), attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR),
        (resealed(batch(), attributes=Codec.GZIP), ErrorCode.UNKNOWN_SERVER_ERROR),
        (batch(is_transactional=True), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_a_broken_batch_is_rejected(records: bytes | None, code: int) -> None:
    """Each broken rule has its own error, a text, and nothing in the log."""
    world = World()

    answer = world.client().produced(records)

    assert answer["error_code"] == code
    assert answer["base_offset"] == -1
    assert answer["error_message"] or code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.cluster.records("orders") == {0: []}


def test_a_rule_of_the_log_tells_where_the_log_begins() -> None:
    """As in Kafka, which knows it only when the log itself rejected it."""
    client = World().client()

    assert client.produced(batch(base_offset=5))["log_start_offset"] == 0
    assert client.produced(damaged(batch(), 17))["log_start_offset"] == -1


def test_records_stamped_too_far_ahead_are_named() -> None:
    """By index, each with a text (KIP-467)."""
    late = TIMESTAMP_MS + 3_600_001

    answer = World().client().produced(stamped(TIMESTAMP_MS, late, TIMESTAMP_MS, late + 5))

    assert [error["batch_index"] for error in answer["record_errors"]] == [1, 3]
    assert all(error["batch_index_error_message"] for error in answer["record_errors"])


def test_only_records_are_held_to_the_time() -> None:
    """A header that claims more than the records is no reason to reject them."""
    ahead = batch(max_timestamp_ms=TIMESTAMP_MS + 3_600_001)

    assert World().client().produced(ahead)["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("tail", [b"\0", batch()[:-1]])
def test_a_batch_cut_off_behind_the_first_is_left_away(tail: bytes) -> None:
    """Bytes that look like the beginning of a batch do no harm, and are not kept."""
    world = World()

    assert world.client().produced(batch() + tail)["error_code"] == ErrorCode.NONE
    (stored,) = world.cluster.batches("orders")[0]
    assert stored[16:] == batch()[16:]


def test_more_in_sync_replicas_than_there_are_replicas_are_not_asked_for() -> None:
    """A topic with one replica takes acks=all, whatever `min.insync.replicas` says."""
    world = World()
    settings = {"min.insync.replicas": "2"}
    world.cluster.create_topic("single", replication_factor=1, settings=settings)
    leader = world.cluster.describe("single", 0).leader_id

    assert world.client(leader).produced(batch(), topic="single")["error_code"] == ErrorCode.NONE


def test_a_good_batch_gets_the_next_offset() -> None:
    """Offsets follow each other, and the log holds the records sent."""
    world = World()
    client = world.client()

    offsets = [client.produced(batch(count))["base_offset"] for count in (1, 3, 2)]

    assert offsets == [0, 1, 4]
    assert [record.offset for record in world.cluster.records("orders")[0]] == list(range(6))


def test_the_stored_bytes_are_those_sent() -> None:
    """Only base offset and leader epoch differ, before the checksum's range."""
    world = World()
    world.client().produced(batch(2))
    sent = batch(3, codec=1)

    world.client().produced(sent)

    stored = world.cluster.batches("orders")[0][1]
    assert stored[16:] == sent[16:]
    assert struct.unpack_from(">q", stored) == (2,)
    assert struct.unpack_from(">i", stored, 12) == (0,)


def test_a_topic_may_stamp_on_append() -> None:
    """With LogAppendTime the broker's clock replaces the producer's, checksum included."""
    world = World()
    world.cluster.create_topic("stamped", settings={"message.timestamp.type": "LogAppendTime"})
    broker = world.cluster.describe("stamped", 0).leader_id
    world.clock.set_wall(TIMESTAMP_MS + 77)

    answer = world.client(broker).produced(batch(2), topic="stamped")

    assert answer["log_append_time_ms"] == TIMESTAMP_MS + 77
    times = [record.timestamp_ms for record in world.cluster.records("stamped")[0]]
    assert times == [TIMESTAMP_MS + 77] * 2


def test_a_batch_too_large_is_rejected() -> None:
    """The topic's limit counts the compressed batch with its header."""
    world = World(config=EmbeddedConfig(message_max_bytes=len(batch(10))))

    assert world.client().produced(batch(10))["error_code"] == ErrorCode.NONE
    assert world.client().produced(batch(11))["error_code"] == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_version_7() -> None:
    """Before version 7 a client cannot know that zstd exists."""
    world = World()

    old = world.client().produced(batch(codec=4), version=6)
    new = world.client().produced(batch(codec=4), version=7)

    assert old["error_code"] == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert new["error_code"] == ErrorCode.NONE


def test_another_leader_is_told() -> None:
    """From version 10 the response names the leader and its address."""
    world = World()
    world.cluster.move_leader("orders", 0, to=2)
    client = world.client(0)

    new = client.produce(batch(), version=12)
    body = client.answers()[new]
    old = client.produced(batch(), version=9)

    assert part(body)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part(body)["current_leader"] == {"leader_id": 2, "leader_epoch": 1}
    assert [(it["node_id"], it["port"]) for it in body["node_endpoints"]] == [(2, 9_002)]
    assert old["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("topic", "partition"), [("orders", 1), ("orders", -1), ("nothing", 0)])
def test_an_unknown_partition_is_rejected(topic: str, partition: int) -> None:
    """Neither a topic nor a partition is made by producing to it."""
    world = World()

    answer = world.client().produced(batch(), topic=topic, partition=partition)

    assert answer["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_version_13_names_topics_by_id() -> None:
    """A known id leads to its topic, an unknown one to UNKNOWN_TOPIC_ID."""
    world = World()
    client = world.client()
    topic_id = client.ask(ApiKey.METADATA, 12, {"topics": None})["topics"][0]["topic_id"]

    def produce(wanted: object) -> int:
        body = {
            "acks": -1,
            "timeout_ms": 10,
            "topic_data": [
                {"topic_id": wanted, "partition_data": [{"index": 0, "records": batch()}]}
            ],
        }
        code: int = part(client.ask(ApiKey.PRODUCE, 13, body))["error_code"]
        return code

    assert produce(topic_id) == ErrorCode.NONE
    assert produce(type(topic_id)(int=9)) == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [2, -2, 32_767])
def test_acks_must_be_known(acks: int) -> None:
    """Only 0, 1 and −1 mean something."""
    answer = World().client().produced(batch(), acks=acks)

    assert answer["error_code"] == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_0_gets_no_answer() -> None:
    """The batch is in the log, the connection is silent, and the next request is answered."""
    world = World()
    client = world.client()

    client.produce(batch(), acks=0)
    silent = client.answers()
    answer = client.produced(batch(), acks=1)

    assert silent == {}
    assert answer["base_offset"] == 1


def test_acks_0_with_an_error_closes_the_connection() -> None:
    """There is no other way to tell the client."""
    world = World()
    client = world.client()

    client.produce(batch(), acks=0, topic="nothing")

    assert client.stream.closed
    assert client.answers() == {}


def test_full_logs_reject() -> None:
    """Past `log_bytes_max` every produce fails until something is dropped."""
    world = World(config=EmbeddedConfig(log_bytes_max=1 << 20, message_max_bytes=2 << 20))
    large = batch(60_000)

    assert world.client().produced(large)["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.client().produced(batch())["error_code"] == ErrorCode.NONE


def test_retention_drops_the_oldest() -> None:
    """The log keeps at least `retention.bytes`, drops whole segments, and moves its start."""
    records = encode_batch([(TIMESTAMP_MS, b"k", b"v" * 600_000, ())])
    world = World(config=EmbeddedConfig(retention_bytes=3 * len(records)))
    client = world.client()

    answers = [client.produced(records) for _ in range(10)]

    assert [answer["base_offset"] for answer in answers] == list(range(10))
    assert world.cluster.describe("orders", 0).log_start_offset == 7
    assert client.fetched(6)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_message_sets_become_batches(version: int) -> None:
    """Versions 0 to 2 bring the older formats; the log holds V2."""
    world = World()
    magic = 1 if version == 2 else 0
    rows = [(index, TIMESTAMP_MS, b"k", b"v%d" % index) for index in range(3)]
    records = write_message_set(rows, magic=magic, codec=Codec.GZIP)

    answers = [world.client().produced(records, version=version) for _ in range(2)]

    stored = world.cluster.records("orders")[0]
    assert [answer["base_offset"] for answer in answers] == [0, 3]
    assert [(it.offset, it.value) for it in stored] == [
        (index, b"v%d" % (index % 3)) for index in range(6)
    ]
    assert {it.timestamp_ms for it in stored} == {TIMESTAMP_MS if magic else -1}


@pytest.mark.parametrize(
    ("records", "version", "code"),
    [
        (None, 2, ErrorCode.INVALID_RECORD),
        (batch(), 2, ErrorCode.INVALID_RECORD),
        (write_message_set([(0, 1, None, b"v")], magic=1), 1, ErrorCode.INVALID_RECORD),
        (write_message_set([(0, 1, None, b"v")], magic=1)[:-1], 2, ErrorCode.INVALID_RECORD),
        (damaged(write_message_set([(0, 1, None, b"v")], magic=0), 26), 0, 2),
        (write_message_set([(0, 1, None, b"v")], magic=1), 3, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_format_belongs_to_its_versions(records: bytes | None, version: int, code: int) -> None:
    """Neither a newer format in an old request nor an older one in a new, nor damage."""
    assert World().client().produced(records, version=version)["error_code"] == code


def test_a_version_not_served_closes_the_connection() -> None:
    """The broker rejects versions that it does not advertise."""
    world = World()
    client = world.client()

    client.send_frame(struct.pack(">hhih", ApiKey.PRODUCE, 99, 1, -1) + b"\0")

    assert client.stream.closed
