"""Questions, frame by frame: the embedded broker answers as Apache Kafka does.

ApiVersions, Metadata, ListOffsets, Fetch, InitProducerId and CreateTopics.
"""

import operator
import struct
import uuid
from typing import Any

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.batches import GOOD, NOW_MS, rows
from tests.conformance.sides import Side, Sides, plain
from tests.conformance.wire import Target
from tests.oracle.record_v2 import encode_batch

NOWHERE = Target("nowhere", uuid.UUID(int=7))
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
FIRST_MS = NOW_MS - 100_000
ILLEGAL_NAMES = ["", "a b", "..", "x" * 250]


@pytest.fixture(scope="module")
def filled(sides: Sides) -> dict[str, Target]:
    """A topic on each side with three partitions; the first holds two batches of three records.

    Returns:
        Its first partition, by side.
    """
    places = {}
    for side in sides:
        places[side.name] = target = side.create("filled", partitions=3)
        for number in range(2):
            batch = encode_batch(rows(timestamp_ms=FIRST_MS + 1_000 * number))
            assert side.produce(target, batch)["error_code"] == ErrorCode.NONE
    return places


@pytest.mark.parametrize("version", [5, 9, 100])
def test_api_versions_in_an_unknown_version(sides: Sides, version: int) -> None:
    """Is answered in version 0, byte for byte the same."""

    def case(side: Side) -> bytes:
        with side.connect() as wire:
            wire.send_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 1, -1) + bytes(3))
            return wire.read_frame()

    assert struct.unpack_from(">ih", sides.agreed(case)) == (1, ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize("version", range(5))
def test_api_versions(sides: Sides, version: int) -> None:
    """Both end with the same version of each API; the embedded broker also has older ones."""
    body = {"client_software_name": "x", "client_software_version": "1"} if version >= 3 else {}

    def last_versions(side: Side) -> dict[int, int]:
        answer = side.ask(ApiKey.API_VERSIONS, version, body)
        assert answer["error_code"] == ErrorCode.NONE
        return {it["api_key"]: it["max_version"] for it in answer["api_keys"]}

    embedded, kafka = last_versions(sides.embedded), last_versions(sides.kafka)
    assert {key: kafka.get(key) for key in embedded} == embedded


@pytest.mark.parametrize("name", ["", "-x"])
def test_api_versions_with_a_malformed_client_name(sides: Sides, name: str) -> None:
    """INVALID_REQUEST, and nothing else is told."""
    body = {"client_software_name": name, "client_software_version": "1"}
    answer = sides.agreed(lambda side: plain(side.ask(ApiKey.API_VERSIONS, 3, body)))
    assert answer["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("key", "version"), [(0, 99), (1, 99), (3, 99), (3, -1), (999, 0)])
def test_an_api_that_is_not_served_closes_the_connection(
    sides: Sides, key: int, version: int
) -> None:
    """There is no version to answer in."""

    def is_closed(side: Side) -> bool:
        with side.connect() as wire:
            wire.send_frame(struct.pack(">hhih", key, version, 1, -1) + bytes(30))
            try:
                wire.read_frame()
            except ConnectionResetError:
                return True
            return False

    assert sides.agreed(is_closed)


@pytest.mark.parametrize("version", range(14))
def test_metadata(sides: Sides, filled: dict[str, Target], version: int) -> None:
    """A topic that is there and one that is not, with auto-creation off, every field."""

    def case(side: Side) -> Any:
        known = filled[side.name].topic
        names = [{"name": known}, {"name": "nowhere"}, {"name": known}]
        answer = plain(side.ask(ApiKey.METADATA, version, {"topics": names}))
        topics = {it.pop("name") == known: it for it in answer["topics"]}
        assert len(answer.pop("topics")) == 2
        for topic in topics.values():
            topic["partitions"].sort(key=operator.itemgetter("partition_index"))
        return answer, topics

    _, topics = sides.agreed(case)
    assert [it["partition_index"] for it in topics[True]["partitions"]] == [0, 1, 2]
    assert topics[False]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ILLEGAL_NAMES)
def test_metadata_of_an_illegal_name(sides: Sides, name: str) -> None:
    """INVALID_TOPIC_EXCEPTION, in nobody's log."""
    answer = sides.agreed(
        lambda side: plain(side.ask(ApiKey.METADATA, 9, {"topics": [{"name": name}]}))
    )
    assert answer["topics"][0]["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_metadata_by_id(sides: Sides, filled: dict[str, Target]) -> None:
    """A known id leads to its topic, an unknown one to UNKNOWN_TOPIC_ID."""

    def case(side: Side, topic_id: uuid.UUID) -> Any:
        entry = {"name": None, "topic_id": topic_id}
        (topic,) = side.ask(ApiKey.METADATA, 12, {"topics": [entry]})["topics"]
        return topic["error_code"], topic["name"] == filled[side.name].topic

    assert sides.agreed(lambda side: case(side, filled[side.name].topic_id)) == (0, True)
    unknown = (ErrorCode.UNKNOWN_TOPIC_ID, False)
    assert sides.agreed(lambda side: case(side, NOWHERE.topic_id)) == unknown


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_of_every_version(sides: Sides, filled: dict[str, Target], version: int) -> None:
    """First, last, by time, and the special times, served from their versions on."""
    times = [EARLIEST, LATEST, 0, FIRST_MS, FIRST_MS + 1, FIRST_MS + 3, FIRST_MS + 1_002, NOW_MS]
    times += [MAX_TIMESTAMP, -4, -5, -6, -7, -99]

    def case(side: Side) -> Any:
        return [plain(side.offset(filled[side.name], it, version=version)) for it in times]

    answers = sides.agreed(case)
    assert [answer["offset"] for answer in answers[:8]] == [0, 6, 0, 0, 1, 3, 5, -1]


def test_offsets_of_an_empty_partition(sides: Sides, filled: dict[str, Target]) -> None:
    """Nothing has a time there."""

    def case(side: Side) -> list[int]:
        place = Target(filled[side.name].topic, filled[side.name].topic_id, 1)
        times = (EARLIEST, LATEST, FIRST_MS, MAX_TIMESTAMP)
        return [side.offset(place, it, version=7)["offset"] for it in times]

    assert sides.agreed(case) == [0, 0, -1, -1]


def test_offsets_of_unknown_places_and_reigns(sides: Sides, filled: dict[str, Target]) -> None:
    """Topic, partition, and a leader epoch from the future."""

    def case(side: Side) -> Any:
        known = filled[side.name]
        answers = [
            side.offset(it, LATEST) for it in (NOWHERE, Target(known.topic, uuid.uuid4(), 9))
        ]
        return plain([*answers, side.offset(known, LATEST, current_leader_epoch=5)])

    assert [answer["error_code"] for answer in sides.agreed(case)] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ]


@pytest.mark.parametrize("version", range(4, 18))
def test_fetch_of_every_version(sides: Sides, version: int) -> None:
    """From a batch's middle, at the end, after it and before the beginning."""

    def case(side: Side) -> Any:
        target = side.create("fetched")
        for _ in range(2):
            assert side.produce(target, GOOD)["error_code"] == ErrorCode.NONE
        answers = [side.fetch(target, it, version=version) for it in (0, 4, 6, 7, -1)]
        for answer in answers:
            for topic in answer["responses"]:
                assert topic.pop("topic") == ("" if version >= 13 else target.topic)
        return plain(answers)

    parts = [answer["responses"][0]["partitions"][0] for answer in sides.agreed(case)]
    assert [part["error_code"] for part in parts] == [0, 0, 0, *[ErrorCode.OFFSET_OUT_OF_RANGE] * 2]
    assert [len(part["records"]) for part in parts[:3]] == [2 * len(GOOD), len(GOOD), 0]


def test_fetch_gives_the_first_batch_whatever_its_size(
    sides: Sides, filled: dict[str, Target]
) -> None:
    """So that a small limit is no dead end."""

    def case(side: Side, **limits: int) -> Any:
        (topic,) = side.fetch(filled[side.name], 0, **limits)["responses"]
        return plain(topic["partitions"])

    for limits in ({"max_bytes": 10}, {"partition_max_bytes": 10}, {"partition_max_bytes": 0}):
        (part,) = sides.agreed(lambda side, limits=limits: case(side, **limits))  # type: ignore[misc]
        assert len(part["records"]) == len(GOOD)


@pytest.mark.parametrize("version", [11, 13])
def test_fetch_of_unknown_places(sides: Sides, filled: dict[str, Target], version: int) -> None:
    """Topic, by name or by id, and partition."""

    def case(side: Side) -> list[int]:
        known = filled[side.name]
        places = (NOWHERE, Target(known.topic, known.topic_id, 8))
        answers = [side.fetch(place, 0, version=version)["responses"] for place in places]
        return [topic["partitions"][0]["error_code"] for (topic,) in answers]

    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version == 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sides.agreed(case) == [no_topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_fetch_with_a_session_that_is_not_there(sides: Sides, filled: dict[str, Target]) -> None:
    """To continue with one is rejected; to end one is a full fetch."""

    def case(side: Side, session_id: int, epoch: int) -> tuple[int, int]:
        answer = side.fetch(filled[side.name], 6, session_id=session_id, session_epoch=epoch)
        return answer["error_code"], len(answer["responses"])

    gone = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    nobodys = 1_999_999_999  # the embedded broker counts its ids, Kafka draws them
    assert sides.agreed(lambda side: case(side, nobodys, 1)) == gone
    assert sides.agreed(lambda side: case(side, 0, 1)) == gone
    assert sides.agreed(lambda side: case(side, nobodys, -1)) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"producer_id": 5, "producer_epoch": 3}, ErrorCode.NONE),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 3}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_producer_ids(sides: Sides, fields: dict[str, Any], code: int) -> None:
    """A new one with epoch 0, whatever came before; half an identity is rejected."""
    body = {"transactional_id": None, "transaction_timeout_ms": 60_000, **fields}

    def case(side: Side) -> tuple[int, int, bool]:
        side.producer_id()  # Kafka has some at hand after the first
        answer = side.ask(ApiKey.INIT_PRODUCER_ID, 4, body)
        return answer["error_code"], answer["producer_epoch"], answer["producer_id"] >= 0

    is_given = code == ErrorCode.NONE
    assert sides.agreed(case) == (code, 0 if is_given else -1, is_given)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        *[({"name": name}, ErrorCode.INVALID_TOPIC_EXCEPTION) for name in ILLEGAL_NAMES],
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 9}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"max.message.bytes": "x"}, ErrorCode.INVALID_CONFIG),
        ({"max.message.bytes": "-1"}, ErrorCode.INVALID_CONFIG),
        ({"max.message.bytes": "99999999999"}, ErrorCode.INVALID_CONFIG),
        ({"min.insync.replicas": "0"}, ErrorCode.INVALID_CONFIG),
        ({"message.timestamp.type": "zz"}, ErrorCode.INVALID_CONFIG),
        ({"message.timestamp.after.max.ms": "-1"}, ErrorCode.INVALID_CONFIG),
        ({"retention.bites": "1"}, ErrorCode.INVALID_CONFIG),
        ({"retention.bytes": "-2"}, ErrorCode.NONE),
        ({"cleanup.policy": "compact"}, ErrorCode.NONE),
    ],
    ids=str,
)
def test_impossible_topics(sides: Sides, fields: dict[str, Any], code: int) -> None:
    """Names, numbers and settings that Kafka rejects, each with its code."""
    settings = [{"name": name, "value": value} for name, value in fields.items() if "." in name]
    own = {name: value for name, value in fields.items() if "." not in name}
    entry = {"name": "possible", "num_partitions": 1, "replication_factor": 1, **own}
    body = {"topics": [{**entry, "configs": settings}], "timeout_ms": 30_000, "validate_only": True}

    def case(side: Side) -> int:
        (topic,) = side.ask(ApiKey.CREATE_TOPICS, 5, body)["topics"]
        assert bool(topic["error_message"]) == bool(topic["error_code"])
        return int(topic["error_code"])

    assert sides.agreed(case) == code
