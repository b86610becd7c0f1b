"""The runs between record pieces; the whole frame is held to the tables elsewhere."""

from typing import Any

import pytest

from kprod._core.wire.produce_pieces import produce_pieces
from kprod.errors import LocalProtocolError

OPENING = bytes(4) + b"KKVV" + b"iiii" + b"rest"


def test_plain_lengths() -> None:
    """An old version: four-byte counts, no tags; the record's piece is the very one given."""
    record = memoryview(b"record")
    frame = produce_pieces(OPENING, 7, [(b"\x00\x01t", [(3, [record], 6)])], False)

    assert frame[1] is record
    assert b"".join(frame) == (
        (37).to_bytes(4)
        + b"KKVV"
        + (7).to_bytes(4)
        + b"rest"  # size, opening
        + b"\0\0\0\x01\x00\x01t"  # one topic
        + b"\0\0\0\x01\0\0\0\x03\0\0\0\x06record"  # one partition
    )


def test_compact_lengths() -> None:
    """A flexible version: counts from 1, and tags behind partition, topic and request."""
    topics = [(b"\x02t", [(3, [b"rec", b"ord"], 6), (4, [], 0)])]
    frame = produce_pieces(OPENING, 7, topics, True)

    assert b"".join(frame)[16:] == (
        b"\x02\x02t\x03\0\0\0\x03\x07record\0" + b"\0\0\0\x04\x01\0" + b"\0" + b"\0"
    )
    assert int.from_bytes(bytes(frame[0])[:4]) == sum(map(len, frame)) - 4


def test_the_opening_is_not_written_to() -> None:
    """It is shared by all requests."""
    first = produce_pieces(OPENING, 1, [], True)
    second = produce_pieces(OPENING, 2, [], True)

    assert b"".join(first)[8:12] == (1).to_bytes(4)
    assert b"".join(second)[8:12] == (2).to_bytes(4)
    assert OPENING.startswith(bytes(4))


@pytest.mark.parametrize(
    ("correlation_id", "partition", "text"),
    [
        (2**31, (0, [b"x"], 1), "correlation_id: 2147483648"),
        (-1, (0, [b"x"], 1), "correlation_id: -1"),
        (1, (2**31, [b"x"], 1), "partition_index: 2147483648"),
        (1, (5, [b"x", b"y"], 3), "partition 5 are 2 bytes, but 3 were announced"),
    ],
)
def test_what_does_not_fit_is_rejected(correlation_id: int, partition: Any, text: str) -> None:
    """The text names the field and the number."""
    with pytest.raises(LocalProtocolError, match=text):
        produce_pieces(OPENING, correlation_id, [(b"t", [partition])], True)


def test_a_short_opening_is_rejected() -> None:
    """Nothing is written past its end."""
    with pytest.raises(LocalProtocolError, match="an opening of 11 bytes"):
        produce_pieces(bytes(11), 1, [], True)
