"""Produce, frame by frame: the embedded broker answers as Apache Kafka does.

Texts apart, which are this broker's own, and where its page says that it is stricter.
"""

import struct
import uuid
from typing import Any

import pytest

from kprod.model import Codec
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.protocol.produce_frame import VERSIONS
from tests.conformance.batches import CODEC_AT, GOOD, HOUR_MS, NOW_MS, resealed, rows, spoilt
from tests.conformance.sides import Side, Sides, plain
from tests.conformance.wire import Target
from tests.oracle.record_v2 import decode_batches, encode_batch

LATE = rows(1) + rows(1, timestamp_ms=NOW_MS + 2 * HOUR_MS) + rows(1)
IDENTITY = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
BROKEN = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "a few bytes": (GOOD[:5], ErrorCode.INVALID_RECORD),
    "half a header": (GOOD[:30], ErrorCode.INVALID_RECORD),
    "cut off": (GOOD[:-5], ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "zeros behind": (GOOD + bytes(20), ErrorCode.CORRUPT_MESSAGE),
    "length too small": (spoilt(GOOD, 8, struct.pack(">i", 20)), ErrorCode.CORRUPT_MESSAGE),
    "length negative": (spoilt(GOOD, 8, struct.pack(">i", -10)), ErrorCode.CORRUPT_MESSAGE),
    "checksum": (spoilt(GOOD, 17, bytes(4)), ErrorCode.CORRUPT_MESSAGE),
    "damage": (spoilt(GOOD, len(GOOD) - 1, b"\x55"), ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (resealed(GOOD, 16, b"\0"), ErrorCode.INVALID_RECORD),
    "magic 1": (resealed(GOOD, 16, b"\1"), ErrorCode.INVALID_RECORD),
    "magic 3": (resealed(GOOD, 16, b"\3"), ErrorCode.CORRUPT_MESSAGE),
    "base offset": (spoilt(GOOD, 0, struct.pack(">q", 5)), ErrorCode.INVALID_RECORD),
    "no records": (encode_batch([]), ErrorCode.INVALID_RECORD),
    "one record less": (resealed(GOOD, 57, struct.pack(">i", 2)), ErrorCode.INVALID_RECORD),
    "one record more": (resealed(GOOD, 57, struct.pack(">i", 4)), ErrorCode.INVALID_RECORD),
    "offsets with gaps": (encode_batch(rows(), offset_deltas=[0, 2, 5]), ErrorCode.INVALID_RECORD),
    "marker": (encode_batch(rows(), is_control=True), ErrorCode.INVALID_RECORD),
    "no epoch": (encode_batch(rows(), producer_id=7), ErrorCode.INVALID_RECORD),
    "no sequence": (
        encode_batch(rows(), producer_id=7, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    "count negative": (resealed(GOOD, 57, struct.pack(">i", -5)), ErrorCode.INVALID_RECORD),
    "count of no bytes": (resealed(GOOD, 57, struct.pack(">i", 1_000)), ErrorCode.INVALID_RECORD),
    "count and last offset of no bytes": (
        resealed(resealed(GOOD, 23, struct.pack(">i", 999)), 57, struct.pack(">i", 1_000)),
        ErrorCode.INVALID_RECORD,
    ),
    "last offset negative": (resealed(GOOD, 23, struct.pack(">i", -1)), ErrorCode.INVALID_RECORD),
    "last offset beyond": (resealed(GOOD, 23, struct.pack(">i", 5)), ErrorCode.INVALID_RECORD),
    "last base offset": (spoilt(GOOD, 0, struct.pack(">q", 2**63 - 1)), ErrorCode.INVALID_RECORD),
    "length of Java's limit": (
        spoilt(GOOD, 8, struct.pack(">i", 2**31 - 1)),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
    "unknown codec": (resealed(GOOD, CODEC_AT, b"\5"), ErrorCode.UNKNOWN_SERVER_ERROR),
    "no gzip": (resealed(GOOD, CODEC_AT, b"\1"), ErrorCode.UNKNOWN_SERVER_ERROR),
    "no zstd": (resealed(GOOD, CODEC_AT, b"\4"), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a record late": (encode_batch(LATE), ErrorCode.INVALID_TIMESTAMP),
    "a record late in gzip": (encode_batch(LATE, codec=Codec.GZIP), ErrorCode.INVALID_TIMESTAMP),
    "a record late, its header not": (
        resealed(encode_batch(LATE), 35, struct.pack(">q", NOW_MS)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a record late in gzip, its header not": (
        resealed(encode_batch(LATE, codec=Codec.GZIP), 35, struct.pack(">q", NOW_MS)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "transactional": (
        encode_batch(rows(), is_transactional=True, **IDENTITY),  # type: ignore[arg-type] # a table
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}
TAKEN = {
    **{codec.name: encode_batch(rows(), codec=codec) for codec in Codec},
    "old": encode_batch(rows(timestamp_ms=1_000)),
    "no timestamp": encode_batch(rows(1, timestamp_ms=-1)),
    "unknown attributes": resealed(GOOD, 21, b"\xff"),
    "delete horizon": encode_batch(rows(), has_delete_horizon=True),
    "leader epoch": encode_batch(rows(), partition_leader_epoch=9),
    "negative producer id": encode_batch(rows(), producer_id=-7),
    "epoch without producer id": encode_batch(rows(), producer_epoch=0, base_sequence=0),
    "a byte behind": GOOD + b"\0",
    "the next batch cut off": GOOD + GOOD[:80],
}


@pytest.fixture(scope="module")
def rejecting(sides: Sides) -> dict[str, Target]:
    """A topic on each side for batches that are rejected.

    Returns:
        Its partition, by side.
    """
    return {side.name: side.create("rejecting") for side in sides}


@pytest.mark.parametrize("version", range(VERSIONS[0], VERSIONS[1] + 1))
def test_every_version_has_the_same_answer(sides: Sides, version: int) -> None:
    """Every field of it, and the same bytes in the log."""

    def case(side: Side) -> tuple[Any, bytes]:
        target = side.create("versions")
        answers = [plain(side.produce(target, GOOD, version=version)) for _ in range(2)]
        return answers, side.log(target)

    answers, log = sides.agreed(case)

    assert [answer["base_offset"] for answer in answers] == [0, 3]
    assert [batch.base_offset for batch in decode_batches(log)] == [0, 3]


@pytest.mark.parametrize("name", TAKEN)
def test_what_kafka_takes_is_taken(sides: Sides, name: str) -> None:
    """With the same answer, and the same bytes in the log."""

    def case(side: Side) -> tuple[Any, bytes]:
        target = side.create("taken")
        return plain(side.produce(target, TAKEN[name])), side.log(target)

    answer, log = sides.agreed(case)

    assert answer["error_code"] == ErrorCode.NONE
    assert log[16:] == TAKEN[name][16 : len(log)]


@pytest.mark.parametrize("name", BROKEN)
def test_what_kafka_rejects_is_rejected(
    sides: Sides, rejecting: dict[str, Target], name: str
) -> None:
    """With the same code, and the same records named; nothing gets into the log."""
    records, code = BROKEN[name]

    def case(side: Side) -> tuple[Any, bytes]:
        answer = plain(side.produce(rejecting[side.name], records))
        for error in answer["record_errors"]:
            assert error.pop("batch_index_error_message")
        return answer, side.log(rejecting[side.name])

    answer, log = sides.agreed(case)

    assert answer["error_code"] == code
    assert [error["batch_index"] for error in answer["record_errors"]] == [1] * ("late" in name)
    assert log == b""


@pytest.mark.parametrize("acks", [1, -1, 2, -2])
def test_acks_other_than_none(sides: Sides, acks: int) -> None:
    """The leader's or all replicas' is answered alike; others are rejected."""
    answer = sides.agreed(lambda side: plain(side.produce(side.create("acks"), GOOD, acks=acks)))

    known = acks in {1, -1}
    assert answer["error_code"] == (ErrorCode.NONE if known else ErrorCode.INVALID_REQUIRED_ACKS)


@pytest.mark.parametrize("records", [GOOD, BROKEN["checksum"][0]], ids=["sound", "broken"])
def test_acks_of_none(sides: Sides, records: bytes) -> None:
    """A sound batch is silence, a broken one ends the connection."""

    def case(side: Side) -> int | None:
        target = side.create("silent")
        with side.connect() as wire:
            wire.send_produce(9, target, records, acks=0)
            try:
                wire.ask(ApiKey.API_VERSIONS, 0, {})
            except ConnectionResetError:
                return None
        return int(side.offset(target, -1)["offset"])

    assert sides.agreed(case) == (3 if records == GOOD else None)


@pytest.mark.parametrize("version", [7, 9])
def test_a_batch_too_large(sides: Sides, version: int) -> None:
    """The limit counts all bytes of the batch and is itself allowed."""

    def case(side: Side) -> list[Any]:
        limits = (len(GOOD), len(GOOD) - 1)
        targets = [side.create("narrow", max_message_bytes=str(limit)) for limit in limits]
        return [plain(side.produce(it, GOOD, version=version)) for it in targets]

    codes = [answer["error_code"] for answer in sides.agreed(case)]
    assert codes == [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE]


def test_zstd_needs_version_7(sides: Sides) -> None:
    """Clients of older versions cannot know it."""

    def case(side: Side) -> list[Any]:
        target = side.create("zstd")
        return [plain(side.produce(target, TAKEN["ZSTD"], version=it)) for it in (6, 7)]

    old, new = sides.agreed(case)
    assert old["error_code"] == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert new["error_code"] == ErrorCode.NONE


def test_the_broker_stamps_where_the_topic_says_so(sides: Sides) -> None:
    """The response's time is in the log, for each record of the batch."""
    for side in sides:
        target = side.create("stamping", message_timestamp_type="LogAppendTime")
        answer = side.produce(target, GOOD)
        (batch,) = decode_batches(side.log(target))
        times = {record.timestamp_ms for record in batch.records}
        assert times == {answer["log_append_time_ms"]}
        assert abs(answer["log_append_time_ms"] - NOW_MS) < HOUR_MS


@pytest.mark.parametrize("version", [9, 13])
def test_unknown_places(sides: Sides, version: int) -> None:
    """A topic, by name or by id, and a partition that are not there."""

    def case(side: Side) -> list[Any]:
        known = side.create("places")
        places = (Target("nowhere", uuid.UUID(int=7)), Target(known.topic, known.topic_id, 7))
        return [plain(side.produce(place, GOOD, version=version)) for place in places]

    topic, partition = sides.agreed(case)
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version == 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic["error_code"] == no_topic
    assert partition["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_more_replicas_in_sync_than_there_are_cannot_be_asked_for(sides: Sides) -> None:
    """`min.insync.replicas` counts up to the replicas of the topic."""
    answer = sides.agreed(
        lambda side: plain(side.produce(side.create("single", min_insync_replicas="2"), GOOD))
    )

    assert answer["error_code"] == ErrorCode.NONE


def numbered(epoch: int, first: int, count: int = 3) -> tuple[int, int, int]:
    """Producer epoch, base sequence, records."""
    return epoch, first, count


LAST = 2**31 - 1
SEQUENCES = {
    "one after another": [(numbered(0, 0), 0), (numbered(0, 3), 3)],
    "begins anywhere": [(numbered(0, 7), 0), (numbered(0, 10), 3)],
    "again": [(numbered(0, 0), 0), (numbered(0, 0), 0), (numbered(0, 3), 3), (numbered(0, 0), 0)],
    "the last five are known": [
        *[(numbered(0, 3 * index), 3 * index) for index in range(6)],
        (numbered(0, 3), 3),
        (numbered(0, 0), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (numbered(0, 18), 18),
    ],
    "gap": [(numbered(0, 0), 0), (numbered(0, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)],
    "overlap": [(numbered(0, 0), 0), (numbered(0, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)],
    "longer": [(numbered(0, 0), 0), (numbered(0, 0, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)],
    "next epoch": [(numbered(0, 0), 0), (numbered(1, 0), 3), (numbered(1, 3), 6)],
    "next epoch not from 0": [
        (numbered(0, 0), 0),
        (numbered(1, 3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
    "stale epoch": [(numbered(1, 0), 0), (numbered(0, 3), ErrorCode.INVALID_PRODUCER_EPOCH)],
    "wraps": [(numbered(0, LAST - 1), 0), (numbered(0, 1), 3)],
    "wraps exactly": [(numbered(0, LAST - 2), 0), (numbered(0, 0), 3)],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(sides: Sides, name: str) -> None:
    """A duplicate gets its first offset and is not appended; gaps and stale epochs are rejected."""
    steps = SEQUENCES[name]

    def case(side: Side) -> tuple[list[Any], list[int]]:
        target, producer_id = side.create("sequences"), side.producer_id()
        answers = [
            plain(
                side.produce(
                    target,
                    encode_batch(
                        rows(count),
                        producer_id=producer_id,
                        producer_epoch=epoch,
                        base_sequence=first,
                    ),
                )
            )
            for (epoch, first, count), _ in steps
        ]
        return answers, [batch.base_offset for batch in decode_batches(side.log(target))]

    answers, log = sides.agreed(case)

    outcomes = [answer["error_code"] or answer["base_offset"] for answer in answers]
    assert outcomes == [outcome for _, outcome in steps]
    assert log == sorted({it["base_offset"] for it in answers if it["error_code"] == 0})
