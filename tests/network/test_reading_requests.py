"""A reader's requests, in every version that it supports."""

import pytest

from kprod.network.reading_position import EARLIEST_TIMESTAMP, ReadingPosition
from kprod.network.reading_requests import fetch_body, list_offsets_body
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec


def position(partition: int, next_offset: int) -> ReadingPosition:
    """A partition that is being read."""
    made = ReadingPosition(partition)
    made.take_offset(0)
    made.advance(next_offset)
    return made


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_in_every_version(version: int) -> None:
    """Offsets and limits arrive; no session is asked for."""
    body = fetch_body(
        "orders",
        [position(3, 70), position(1, 5)],
        wait_ms=250,
        bytes_max=1_000,
        partition_bytes_max=100,
    )
    codec = request_codec(ApiKey.FETCH, version)

    decoded = codec.decode(codec.encode(body))

    assert (decoded["max_wait_ms"], decoded["max_bytes"]) == (250, 1_000)
    assert decoded["replica_id"] == -1
    assert decoded["session_epoch"] == -1
    asked = decoded["topics"][0]["partitions"]
    assert [(each["partition"], each["fetch_offset"]) for each in asked] == [(3, 70), (1, 5)]


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_in_every_version(version: int) -> None:
    """Each partition is asked for the same end."""
    body = list_offsets_body("orders", [position(0, 0), position(2, 0)], EARLIEST_TIMESTAMP)
    codec = request_codec(ApiKey.LIST_OFFSETS, version)

    (topic,) = codec.decode(codec.encode(body))["topics"]

    assert [(each["partition_index"], each["timestamp"]) for each in topic["partitions"]] == [
        (0, -2),
        (2, -2),
    ]
