"""The scatter/gather Produce frame against the table-driven codec, byte for byte."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprod.errors import LocalProtocolError
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.headers import encode_request_header
from kprod.protocol.produce_frame import (
    VERSIONS,
    PartitionRecords,
    ProduceFrame,
    TopicRecords,
    produce_request,
)


def _partition(index: int, *pieces: bytes) -> PartitionRecords:
    return index, [memoryview(p) for p in pieces], sum(map(len, pieces))


_PARTITIONS = st.builds(
    lambda index, pieces: _partition(index, *pieces),
    st.integers(0, 2**31 - 1),
    st.lists(st.binary(max_size=300), max_size=4),
)
_TOPICS = st.builds(
    TopicRecords, st.text(max_size=10), st.uuids(), st.lists(_PARTITIONS, max_size=3)
)
_REQUESTS = st.builds(
    ProduceFrame,
    version=st.integers(*VERSIONS),
    correlation_id=st.integers(0, 2**31 - 1),
    client_id=st.none() | st.text(max_size=10),
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
    transactional_id=st.none() | st.text(max_size=10),
    topics=st.lists(_TOPICS, max_size=3),
)


def _by_tables(request: ProduceFrame) -> bytes:
    by_id = request.version >= 13
    topics = [
        {
            **({"topic_id": topic.topic_id} if by_id else {"name": topic.name}),
            "partition_data": [
                {"index": index, "records": b"".join(pieces)}
                for index, pieces, _ in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    body = request_codec(ApiKey.PRODUCE, request.version).encode(
        {
            "transactional_id": request.transactional_id,
            "acks": request.acks,
            "timeout_ms": request.timeout_ms,
            "topic_data": topics,
        }
    )
    frame = encode_request_header(
        ApiKey.PRODUCE, request.version, request.correlation_id, request.client_id
    )
    return len(frame + body).to_bytes(4) + frame + body


@settings(max_examples=200, deadline=None)
@given(request=_REQUESTS)
def test_the_pieces_joined_are_what_the_tables_say(request: ProduceFrame) -> None:
    """Every version, with any number of topics, partitions and pieces."""
    assert b"".join(produce_request(request)) == _by_tables(request)


def _request(**changes: Any) -> ProduceFrame:
    settled: dict[str, Any] = {
        "version": 12,
        "correlation_id": 1,
        "client_id": "me",
        "acks": -1,
        "timeout_ms": 30_000,
        "transactional_id": None,
        "topics": [TopicRecords("orders", UUID(int=7), [_partition(0, b"first", b"second")])],
    }
    return ProduceFrame(**(settled | changes))


def test_record_pieces_are_passed_on_not_copied() -> None:
    """The very views that came in are in the result."""
    first, second = memoryview(b"first"), memoryview(b"second")
    topics = [TopicRecords("orders", UUID(int=7), [(0, [first, second], 11)])]
    pieces = produce_request(_request(topics=topics))
    assert len(pieces) == 4
    assert pieces[1] is first
    assert pieces[2] is second


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 2}, "versions 3 to 13, not 2"),
        ({"version": 14}, "versions 3 to 13, not 14"),
        ({"acks": 2**15}, "acks: 32768"),
        ({"timeout_ms": 2**31}, "timeout_ms: 2147483648"),
        ({"transactional_id": "x" * 32_768}, "transactional_id is 32768 bytes"),
        ({"correlation_id": 2**31}, "correlation_id"),
    ],
)
def test_what_does_not_fit_is_rejected(changes: dict[str, Any], text: str) -> None:
    """The text names the field and the number."""
    with pytest.raises(LocalProtocolError, match=text):
        produce_request(_request(**changes))


def test_pieces_of_another_length_than_announced_are_rejected() -> None:
    """A frame with a wrong length would end the connection, or worse."""
    partition = 3, [b"12345"], 6
    with pytest.raises(LocalProtocolError, match="partition 3 are 5 bytes, but 6"):
        produce_request(_request(topics=[TopicRecords("orders", UUID(int=7), [partition])]))
