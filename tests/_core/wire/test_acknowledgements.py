"""Answers that take every batch, against the table-driven codec; all others are not for here."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.wire.acknowledgements import read_acknowledgements
from kprod.errors import RemoteProtocolError
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import decode_response_header, encode_response_header

VERSIONS = range(3, 14)
BY_ID = 13

BASE_OFFSET_MAX = 2**63 - 2**31

_INT64 = st.integers(-(2**63), 2**63 - 1)
_PARTITIONS = st.fixed_dictionaries(
    {
        "index": st.integers(-(2**31), 2**31 - 1),
        "base_offset": _INT64,
        "log_append_time_ms": _INT64,
        "log_start_offset": _INT64,
    }
)
_MANY: list[dict[str, Any]] = [{}] * 200
_TOPICS = st.tuples(
    st.text(max_size=300), st.uuids(), st.lists(_PARTITIONS, max_size=4) | st.just(_MANY)
)
PLAIN = {"index": 3, "base_offset": 7, "log_append_time_ms": -1, "log_start_offset": 0}


def answer(
    version: int, topics: list[tuple[str, UUID, list[dict[str, Any]]]], **more: object
) -> bytes:
    """A response as a broker writes it, without the size prefix."""
    responses = [
        {
            **({"topic_id": topic_id} if version >= BY_ID else {"name": name}),
            "partition_responses": [
                {
                    field: value
                    for field, value in (PLAIN | {"error_code": 0} | partition).items()
                    if version >= 5 or field != "log_start_offset"
                }
                for partition in partitions
            ],
        }
        for name, topic_id, partitions in topics
    ]
    body = {"responses": responses, "throttle_time_ms": 0} | more
    header = encode_response_header(ApiKey.PRODUCE, version, 77)
    return header + response_codec(ApiKey.PRODUCE, version).encode(body)


def by_tables(frame: bytes, version: int) -> list[tuple[Any, int, int, int]]:
    """The same, as the codec reads it."""
    _, offset = decode_response_header(ApiKey.PRODUCE, version, frame)
    body = response_codec(ApiKey.PRODUCE, version).decode(frame[offset:])
    return [
        (
            topic["topic_id"].int if version >= BY_ID else topic["name"],
            partition["index"],
            partition["base_offset"],
            partition["log_append_time_ms"],
        )
        for topic in body["responses"]
        for partition in topic["partition_responses"]
    ]


@given(st.sampled_from(VERSIONS), st.lists(_TOPICS, max_size=3))
def test_equal_to_the_tables(
    version: int, topics: list[tuple[str, UUID, list[dict[str, Any]]]]
) -> None:
    """Any names, ids, offsets and times; none, few and many partitions; every version."""
    frame = answer(version, topics)
    expected = by_tables(frame, version)
    can_be_meant = all(
        index >= 0 and -1 <= base_offset <= BASE_OFFSET_MAX and time_ms >= -1
        for _, index, base_offset, time_ms in expected
    )

    assert read_acknowledgements(frame, version) == (expected if can_be_meant else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_about_more_partitions_than_asked_is_left_to_the_tables(version: int) -> None:
    """A request for one partition reads one; nothing is made of the others."""
    two = [("orders", UUID(int=5), [PLAIN, PLAIN | {"index": 4}])]

    assert read_acknowledgements(answer(version, ONE), version, 1) is not None
    assert read_acknowledgements(answer(version, two), version, 1) is None
    assert read_acknowledgements(answer(version, two), version, 2) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": -1},
        {"base_offset": -2},
        {"base_offset": 2**63 - 1},
        {"base_offset": -(2**63)},
        {"log_append_time_ms": -2},
    ],
)
def test_numbers_that_no_broker_can_mean_are_left_to_the_tables(wrong: dict[str, int]) -> None:
    """The offset of a batch's last record is below 2⁶³ too."""
    assert read_acknowledgements(answer(9, [("orders", UUID(int=5), [PLAIN | wrong])]), 9) is None


ONE = [("orders", UUID(int=5), [PLAIN])]


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_that_say_more_are_left_to_the_tables(version: int) -> None:
    """An error, a throttle, a message, records at fault, a leader, an address."""
    rejected = [("orders", UUID(int=5), [PLAIN, PLAIN | {"error_code": 6}])]
    more = [answer(version, rejected), answer(version, ONE, throttle_time_ms=1)]
    if version >= 8:
        fault = {"batch_index": 0, "batch_index_error_message": None}
        fields: tuple[dict[str, Any], ...] = ({"error_message": ""}, {"record_errors": [fault]})
        more += [answer(version, [("orders", UUID(int=5), [PLAIN | field])]) for field in fields]
    if version >= 10:
        leader = {"current_leader": {"leader_id": 1, "leader_epoch": 2}}
        more.append(answer(version, [("orders", UUID(int=5), [PLAIN | leader])]))
        node = {"node_id": 1, "host": "h", "port": 9, "rack": None}
        more.append(answer(version, ONE, node_endpoints=[node]))

    assert [read_acknowledgements(frame, version) for frame in more] == [None] * len(more)
    for frame in more:
        by_tables(frame, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_and_lengthened_answers_are_left_to_the_tables(version: int) -> None:
    """At every byte; nothing is read past the end."""
    frame = answer(version, ONE)

    assert read_acknowledgements(frame, version) is not None
    for end in range(len(frame)):
        assert read_acknowledgements(frame[:end], version) is None
    assert read_acknowledgements(frame + b"\0", version) is None


@given(st.sampled_from(VERSIONS), st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_read_as_the_tables_read_it_or_not_at_all(
    version: int, place: int, byte: int
) -> None:
    """Whatever else a response says is for the codec, which may reject it."""
    frame = bytearray(answer(version, ONE))
    frame[place % len(frame)] = byte
    changed = bytes(frame)

    read = read_acknowledgements(changed, version)

    if read is not None:
        assert read == by_tables(changed, version)


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_junk_is_read_as_the_tables_read_it_or_not_at_all(junk: bytes, version: int) -> None:
    """Also counts that promise more than there is."""
    try:
        expected: list[tuple[Any, int, int, int]] | None = by_tables(junk, version)
    except RemoteProtocolError:
        expected = None

    read = read_acknowledgements(junk, version)
    assert read is None or read == expected


def test_other_versions_and_buffers_are_left_to_the_tables() -> None:
    """Older, newer, and a frame that came in pieces."""
    frame = answer(9, ONE)

    assert read_acknowledgements(frame, 2) is None
    assert read_acknowledgements(frame, 14) is None
    assert read_acknowledgements(bytearray(frame), 9) is None
