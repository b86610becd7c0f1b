"""The framing of compressed blocks, tested with blocks that the libraries made."""

import struct

import lz4.frame
import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.record.block_frames import lz4_frame_bytes_max, snappy_block_bytes

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
LZ4_HEADER = bytes.fromhex("04224d18604082")
LZ4_END = bytes(4)


def _xerial(*blocks: bytes) -> bytes:
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _lz4(payload: bytes) -> bytes:
    frame: bytes = lz4.frame.compress(
        payload, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return frame


@given(st.binary(max_size=300))
def test_one_block_of_snappy_declares_its_size(payload: bytes) -> None:
    """Whatever it holds, and whatever its version numbers say."""
    stream = _xerial(snappy.compress(payload))
    assert snappy_block_bytes(stream) == len(payload)
    assert snappy_block_bytes(stream[:8] + b"\xff" * 8 + stream[16:]) == len(payload)


@given(st.binary(max_size=40), st.data())
def test_bytes_that_are_not_one_whole_block_of_snappy(payload: bytes, data: st.DataObject) -> None:
    """Cut anywhere, followed by anything, without framing, or two blocks: all are −1."""
    block = snappy.compress(payload)
    stream = _xerial(block)
    cut = data.draw(st.integers(0, len(stream) - 1))
    assert snappy_block_bytes(stream[:cut]) == -1
    assert snappy_block_bytes(stream + b"\x00") == -1
    assert snappy_block_bytes(block) == -1
    assert snappy_block_bytes(_xerial(block, block)) == -1


@pytest.mark.parametrize(
    ("block", "declared"),
    [
        (b"\x00", 0),
        (b"\x16", 22),
        (b"\x17", -1),  # a byte cannot yield 23
        (b"\x80", -1),  # the number continues, the block does not
        (b"\xff\xff\xff\xff\x0f" + bytes(9), -1),
        (b"\x80\x80\x80\x80\x80\x00", -1),  # more than 32 bits
        (b"", -1),
    ],
)
def test_sizes_that_a_block_of_snappy_may_declare(block: bytes, declared: int) -> None:
    """A size is believed if the compressed bytes can yield it."""
    assert snappy_block_bytes(_xerial(block)) == declared


def test_a_negative_length_of_a_block_of_snappy() -> None:
    """It is not read as a large one."""
    assert snappy_block_bytes(XERIAL_HEADER + b"\xff\xff\xff\xff" + b"\x00") == -1


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 200_000])
def test_an_lz4_frame_is_bounded_by_its_blocks(size: int) -> None:
    """64 KiB for each."""
    assert lz4_frame_bytes_max(_lz4(b"x" * size)) == -(-size // 65_536) * 65_536


@given(st.binary(max_size=60), st.data())
def test_bytes_that_are_not_one_whole_lz4_frame(payload: bytes, data: st.DataObject) -> None:
    """Cut anywhere, followed by anything, or with another header: all are −1."""
    frame = _lz4(payload)
    assert lz4_frame_bytes_max(frame) >= len(payload)
    assert lz4_frame_bytes_max(frame[: data.draw(st.integers(0, len(frame) - 1))]) == -1
    assert lz4_frame_bytes_max(frame + data.draw(st.binary(min_size=1, max_size=9))) == -1
    index = data.draw(st.integers(0, 6))
    other = bytearray(frame)
    other[index] ^= data.draw(st.integers(1, 255))
    assert lz4_frame_bytes_max(other) == -1


@pytest.mark.parametrize(
    ("blocks", "bound"),
    [
        (b"\x01\x00\x00\x80a", 65_536),  # stored as it is
        (b"\x02\x00\x00\x80a", -1),  # longer than the bytes left
        (b"\xff\xff\xff\x7fa", -1),
        (b"\x00\x00\x00\x80", 65_536),  # empty, but no end mark
    ],
)
def test_sizes_of_lz4_blocks(blocks: bytes, bound: int) -> None:
    """The highest bit is no part of the size, and no size leads past the end."""
    assert lz4_frame_bytes_max(LZ4_HEADER + blocks + LZ4_END) == bound


@pytest.mark.parametrize("look", [snappy_block_bytes, lz4_frame_bytes_max])
def test_any_buffer_is_looked_at_and_nothing_else(look: object) -> None:
    """bytes, bytearray and memoryview alike."""
    assert callable(look)
    for payload in (_lz4(b"abc"), _xerial(snappy.compress(b"abc"))):
        assert look(payload) == look(bytearray(payload)) == look(memoryview(payload))
    with pytest.raises(TypeError):
        look("text")
