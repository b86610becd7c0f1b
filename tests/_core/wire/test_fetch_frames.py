"""Fetches of one partition, against the table-driven codec; all others are not for here."""

import sys
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.wire.fetch_frames import LoneFetch, read_lone_fetch, repeated_fetch_frame
from kprod.config.address import Address
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.fetch_request import FetchRequest, FetchTerms, fetch_fields
from kprod.consumer.fetch_session import FetchSession, SessionRequest, Wanted
from kprod.consumer.position import AssignedPartition, new_start
from kprod.model import TopicPartition
from kprod.network.client_request import ClientRequest
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import decode_response_header, encode_response_header

LONE_VERSIONS = range(12, 18)
BY_ID = 13

_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_NAMES = st.text(st.characters(codec="utf-8"), max_size=300)
PLAIN: dict[str, Any] = {
    "partition_index": 3,
    "error_code": 0,
    "high_watermark": 9,
    "last_stable_offset": 8,
    "log_start_offset": 1,
    "aborted_transactions": None,
    "preferred_read_replica": -1,
    "records": b"records",
}
TOPIC_ID = UUID(int=7)


def _ignore(*_: object) -> None:
    """Nothing is sent."""


def _part(wanted: list[tuple[str, UUID, int, list[int]]], session_id: int, epoch: int) -> Any:
    named: dict[TopicPartition, Wanted] = {}
    for name, topic_id, index, numbers in wanted:
        partition = AssignedPartition(TopicPartition(name, index), new_start(0))
        leader_epoch, offset, last_epoch, bytes_max = numbers
        named[partition.key] = Wanted(
            partition,
            1,
            topic_id=topic_id,
            leader_epoch=leader_epoch,
            offset=offset,
            last_epoch=last_epoch,
            bytes_max=bytes_max,
        )
    return SessionRequest(session_id, epoch, named, [])


@given(
    st.sampled_from(LONE_VERSIONS),
    st.lists(
        st.tuples(_NAMES, st.uuids(), _INT32, st.tuples(_INT32, _INT64, _INT32, _INT32).map(list)),
        max_size=2,
    ),
    st.tuples(_INT32, _INT32, _INT32, st.integers(0, 2**31 - 1)),
    st.sampled_from(["read_committed", "read_uncommitted"]),
    _NAMES,
)
def test_requests_equal_the_tables(
    version: int,
    wanted: list[tuple[str, UUID, int, list[int]]],
    numbers: tuple[int, int, int, int],
    isolation_level: str,
    rack: str,
) -> None:
    """Any names, ids, epochs and offsets; none, one and two partitions; every version."""
    session_id, epoch, bytes_max, correlation_id = numbers
    config = ConsumerConfig(
        bootstrap_servers=(Address("h", 1),), isolation_level=isolation_level, client_rack=rack
    )
    terms, part = FetchTerms(config.fetch_settings()), _part(wanted, session_id, epoch)
    request = FetchRequest(1, FetchSession(), part, bytes_max, (4, 17), terms, _ignore)
    table = ClientRequest(
        node_id=1,
        api_key=ApiKey.FETCH,
        on_complete=_ignore,
        body=fetch_fields(terms.settings, bytes_max) | part.fields(),
    )
    for _ in range(2):  # the second time with the opening of the first
        frame = b"".join(map(bytes, request.encode(version, correlation_id, "me").pieces))
        assert frame == b"".join(map(bytes, table.encode(version, correlation_id, "me").pieces))


@given(
    st.sampled_from([version for version in LONE_VERSIONS if version >= BY_ID]),
    st.uuids(),
    st.tuples(_INT32, _INT64, _INT32, _INT32).map(list),
    st.tuples(_INT32, _INT32, st.integers(0, 2**31 - 1), _INT64, _INT32),
)
def test_a_repeated_frame_equals_a_new_one(
    version: int,
    topic_id: UUID,
    numbers: list[int],
    changed: tuple[int, int, int, int, int],
) -> None:
    """With other numbers in the four fields that may change, and all others as they were."""
    bytes_max, epoch, number, offset, last_epoch = changed
    config = ConsumerConfig(bootstrap_servers=(Address("h", 1),), client_rack="r")
    terms = FetchTerms(config.fetch_settings())
    first = _part([("t", topic_id, 0, numbers)], 7, 1)
    request = FetchRequest(1, FetchSession(), first, bytes_max, (4, 17), terms, _ignore)
    request.encode(version, 5, "me")
    assert request.repeated is first.wanted
    repeated = request.repeated_frame(number, epoch, offset, last_epoch)
    leader_epoch, _, _, partition_max = numbers
    second = _part(
        [("t", topic_id, 0, [leader_epoch, offset, last_epoch, partition_max])], 7, epoch
    )
    assert repeated == terms.frame(second, bytes_max, version, number, "me")


def test_a_frame_that_names_nothing_is_not_repeated() -> None:
    """The fields would be beyond its end."""
    for size_bytes, opening_bytes in [(30, 0), (100, 80), (100, sys.maxsize), (100, -1)]:
        with pytest.raises(ValueError, match="names no partition"):
            repeated_fetch_frame(bytes(size_bytes), opening_bytes, 1, 1, 1, 1)


def _response(version: int, topics: list[Any], **more: object) -> bytes:
    body = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "session_id": 5,
        "responses": [
            {
                **({"topic_id": topic_id} if version >= BY_ID else {"topic": name}),
                "partitions": partitions,
            }
            for name, topic_id, partitions in topics
        ],
    } | more
    header = encode_response_header(ApiKey.FETCH, version, 77)
    return header + response_codec(ApiKey.FETCH, version).encode(body)


_PARTITIONS = st.fixed_dictionaries(
    {
        "partition_index": _INT32,
        "high_watermark": _INT64,
        "last_stable_offset": _INT64,
        "log_start_offset": _INT64,
        "aborted_transactions": st.sampled_from([None, []]),
        "records": st.none() | st.binary(max_size=300) | st.just(b"r" * 70_000),
    }
).map(lambda partition: PLAIN | partition)


@given(
    st.sampled_from(LONE_VERSIONS),
    st.none() | st.tuples(_NAMES, st.uuids(), _PARTITIONS.map(lambda it: [it])),
    _INT32,
    st.sampled_from([bytes, bytearray]),
)
def test_responses_equal_the_tables(
    version: int, topic: tuple[str, UUID, list[Any]] | None, session_id: int, kind: type
) -> None:
    """Any numbers, with and without records, in both kinds of frames."""
    frame = _response(version, [] if topic is None else [topic], session_id=session_id)
    lone = read_lone_fetch(kind(frame), version)
    assert lone is not None
    assert lone.session_id == session_id
    _, offset = decode_response_header(ApiKey.FETCH, version, frame)
    body = response_codec(ApiKey.FETCH, version).decode(frame[offset:])
    if topic is None:
        assert (lone.topic, lone.partition, lone.records) == (None, -1, None)
        assert body["responses"] == []
        return
    read = body["responses"][0]
    answer = read["partitions"][0]
    assert lone.topic == (read["topic_id"].int if version >= BY_ID else read["topic"])
    assert lone.partition == answer["partition_index"]
    assert lone.high_watermark == answer["high_watermark"]
    assert lone.last_stable_offset == answer["last_stable_offset"]
    assert lone.log_start_offset == answer["log_start_offset"]
    assert bytes(lone.records or b"") == bytes(answer["records"] or b"")


LEFT: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a throttle time": ([PLAIN], {"throttle_time_ms": 1}),
    "an error": ([PLAIN], {"error_code": 1}),
    "an error of the partition": ([PLAIN | {"error_code": 6}], {}),
    "a preferred replica": ([PLAIN | {"preferred_read_replica": 2}], {}),
    "aborted transactions": (
        [PLAIN | {"aborted_transactions": [{"producer_id": 1, "first_offset": 2}]}],
        {},
    ),
    "a diverging epoch": ([PLAIN | {"diverging_epoch": {"epoch": 1, "end_offset": 2}}], {}),
    "another leader": ([PLAIN | {"current_leader": {"leader_id": 1, "leader_epoch": 2}}], {}),
    "two partitions": ([PLAIN, PLAIN], {}),
    "no partition of a topic": ([], {}),
}


@pytest.mark.parametrize("version", LONE_VERSIONS)
@pytest.mark.parametrize("kind", LEFT)
def test_any_other_response_is_left_to_the_tables(kind: str, version: int) -> None:
    """It says more than the records of one partition."""
    partitions, more = LEFT[kind]
    topic = ("t", TOPIC_ID, partitions)
    assert read_lone_fetch(_response(version, [topic], **more), version) is None


@pytest.mark.parametrize("version", LONE_VERSIONS)
def test_two_topics_are_left_to_the_tables(version: int) -> None:
    """One partition each."""
    topics = [("t", TOPIC_ID, [PLAIN]), ("u", UUID(int=8), [PLAIN])]
    assert read_lone_fetch(_response(version, topics), version) is None


@pytest.mark.parametrize("version", [-1, *range(4, 12), 18, 99])
def test_other_versions_are_left_to_the_tables(version: int) -> None:
    """They have other fields."""
    frame = _response(12, [("t", TOPIC_ID, [PLAIN])])
    assert read_lone_fetch(frame, version) is None


@pytest.mark.parametrize("version", LONE_VERSIONS)
def test_bytes_that_are_cut_or_follow_are_left_to_the_tables(version: int) -> None:
    """At every byte, and with one more."""
    frame = _response(version, [("t", TOPIC_ID, [PLAIN])])
    assert isinstance(read_lone_fetch(frame, version), LoneFetch)
    for end in range(len(frame)):
        assert read_lone_fetch(frame[:end], version) is None
    assert read_lone_fetch(frame + b"\0", version) is None


@given(st.sampled_from(LONE_VERSIONS), st.binary(max_size=200))
def test_any_bytes_are_read_safely(version: int, rest: bytes) -> None:
    """Whatever a peer sends: a view of records is within the frame."""
    lone = read_lone_fetch(bytes(4) + b"\0" + bytes(6) + rest, version)
    assert lone is None or len(lone.records or b"") <= len(rest)


def test_other_frames_are_left_to_the_tables() -> None:
    """Only bytes are read in place."""
    frame: Any = memoryview(_response(12, []))
    assert read_lone_fetch(frame, 12) is None
