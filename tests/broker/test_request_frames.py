"""Frames out of bytes, however they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.broker.request_frames import FrameReader
from kprod.errors import RemoteProtocolError

SCRATCH_BYTES = 64


def feed(reader: FrameReader, stream: bytes, slices: list[int]) -> list[bytes]:
    """Hand bytes over in pieces of the given sizes, the last size repeated."""
    frames: list[bytes] = []
    at, turn = 0, 0
    while at < len(stream):
        with reader.target() as target:
            count = min(slices[min(turn, len(slices) - 1)], len(target), len(stream) - at)
            target[:count] = stream[at : at + count]
        frames += [bytes(frame) for frame in reader.received(count)]
        at, turn = at + count, turn + 1
    return frames


@given(
    frames=st.lists(st.binary(min_size=1, max_size=5_000), max_size=8),
    slices=st.lists(st.integers(1, 3_000), min_size=1, max_size=8),
)
def test_slicing_does_not_matter(frames: list[bytes], slices: list[int]) -> None:
    """Whatever pieces the bytes come in, the frames are the same."""
    stream = b"".join(len(frame).to_bytes(4) + frame for frame in frames)
    reader = FrameReader(10_000, memoryview(bytearray(SCRATCH_BYTES)))

    assert feed(reader, stream, slices) == frames
    assert reader.is_idle


@pytest.mark.parametrize("size", [0, -1, -(2**31), 1_001, 2**31 - 1])
def test_a_bad_size_is_an_error(size: int) -> None:
    """Zero, negative and above the cap are rejected as soon as they are read."""
    reader = FrameReader(1_000, memoryview(bytearray(SCRATCH_BYTES)))

    with pytest.raises(RemoteProtocolError, match="frame"):
        feed(reader, size.to_bytes(4, signed=True), [4])


def test_an_announced_size_allocates_little() -> None:
    """A large announcement costs no more than sixteen times the bytes that came."""
    reader = FrameReader(2**31 - 1, memoryview(bytearray(SCRATCH_BYTES)))

    feed(reader, (2**31 - 1).to_bytes(4) + b"x", [5])

    with reader.target() as target:
        assert len(target) < 2_048
    assert not reader.is_idle
