"""Lengths and correlation ids of responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.wire.frames import correlation_id_of, whole_frame
from kprod.errors import RemoteProtocolError


@given(st.binary(min_size=4, max_size=100), st.binary(max_size=20))
def test_a_frame_that_is_all_there_is(frame: bytes, left_over: bytes) -> None:
    """Cut out without its length, whatever the buffer held before; nothing else is."""
    arrived = len(frame).to_bytes(4) + frame
    buffer = bytearray(arrived + left_over)

    assert whole_frame(buffer, len(arrived), 100) == frame
    assert whole_frame(buffer, len(arrived) - 1, 100) is None
    assert whole_frame(buffer, len(arrived) + 1, 100) is None
    assert whole_frame(buffer, len(arrived), len(frame) - 1) is None


@given(st.binary(max_size=12), st.integers(0, 20))
def test_whatever_has_arrived(arrived: bytes, count_bytes: int) -> None:
    """Too few bytes, lengths that cannot be meant, counts past the buffer: never read past it."""
    found = whole_frame(bytearray(arrived), count_bytes, 100)

    assert found is None or found == arrived[4 : 4 + int.from_bytes(arrived[:4])]


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=8))
def test_correlation_ids(number: int, rest: bytes) -> None:
    """The ids of frames that came whole, and in pieces."""
    frame = number.to_bytes(4, signed=True) + rest

    assert correlation_id_of(frame) == number
    assert correlation_id_of(bytearray(frame)) == number


def test_a_response_without_correlation_id() -> None:
    """Never, since no reader of frames accepts one; rejected all the same."""
    with pytest.raises(RemoteProtocolError, match="3 bytes"):
        correlation_id_of(b"abc")
    with pytest.raises(TypeError):
        correlation_id_of(memoryview(b"abcd"))  # type: ignore[arg-type]
