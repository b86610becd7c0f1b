"""snappy: xerial's framing, raw blocks, lengths that lie."""

import random
import struct

import cramjam
import pytest
import snappy as library

from kprod.compression import snappy
from kprod.errors import CorruptRecord

LIMIT_BYTES = 1 << 20
HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def _stream(*blocks: bytes, header: bytes = HEADER) -> bytes:
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def test_golden_stream() -> None:
    """The header, a length and a literal, byte for byte."""
    assert snappy.compress(b"abc") == HEADER + b"\x00\x00\x00\x05\x03\x08abc"
    assert snappy.compress(b"") == HEADER


def test_blocks_of_1_mib() -> None:
    """A payload is cut every 1 MiB: a batch of usual size releases the GIL once."""
    payload = random.Random(5).randbytes((1 << 20) * 2 + 7)
    packed = snappy.compress(payload)
    sizes = []
    position = len(HEADER)
    while position < len(packed):
        (length,) = struct.unpack_from(">i", packed, position)
        block = packed[position + 4 : position + 4 + length]
        sizes.append(cramjam.snappy.decompress_raw_len(block))
        position += 4 + length
    assert sizes == [1 << 20, 1 << 20, 7]


@pytest.mark.parametrize("block_bytes", [1, 100, 32 << 10, 1 << 20])
def test_any_block_size(block_bytes: int) -> None:
    """Readers take whatever block size the writer chose."""
    payload = b"0123456789" * 300
    blocks = [
        library.compress(payload[at : at + block_bytes])
        for at in range(0, len(payload), block_bytes)
    ]
    assert snappy.decompress(_stream(*blocks), LIMIT_BYTES) == payload


def test_raw_block() -> None:
    """A block without framing is read as it is."""
    assert snappy.decompress(library.compress(b"raw" * 100), LIMIT_BYTES) == b"raw" * 100


def test_little_endian_versions() -> None:
    """The version numbers may be anything: some producers write them the other way round."""
    header = HEADER[:8] + struct.pack("<ii", 1, 1)
    assert snappy.decompress(_stream(library.compress(b"x"), header=header), LIMIT_BYTES) == b"x"


@pytest.mark.parametrize("length", [-1, -(2**31), 8, 2**31 - 1])
def test_block_length_that_lies(length: int) -> None:
    """A negative length, or one past the end, is corrupt."""
    packed = HEADER + struct.pack(">i", length) + library.compress(b"abc")
    with pytest.raises(CorruptRecord, match=f"a block of {length} bytes at byte 16"):
        snappy.decompress(packed, LIMIT_BYTES)


@pytest.mark.parametrize(
    "declared", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\x01", b""]
)
def test_declared_length_that_lies(declared: bytes) -> None:
    """A block that could never grow to what it declares is rejected before the library sees it."""
    with pytest.raises(CorruptRecord, match="declare"):
        snappy.decompress(declared, LIMIT_BYTES)
    with pytest.raises(CorruptRecord, match="declare"):
        snappy.decompress(_stream(declared), LIMIT_BYTES)


def test_best_expansion_is_read() -> None:
    """A block of the longest copies, 64 bytes from 3, is within what a reader accepts."""
    payload = b"a" * (64 * 1_000)
    packed = library.compress(payload)
    assert len(payload) > 20 * len(packed)
    assert snappy.decompress(packed, LIMIT_BYTES) == payload


def test_bomb_of_many_blocks() -> None:
    """Blocks count against one bound together."""
    packed = _stream(*[library.compress(bytes(60_000))] * 20)
    with pytest.raises(CorruptRecord, match="grow past 1048576"):
        snappy.decompress(packed, LIMIT_BYTES)


def test_cut_between_blocks() -> None:
    """The framing has no end mark: a stream cut between blocks is a shorter stream."""
    blocks = [library.compress(b"one"), library.compress(b"two")]
    whole = _stream(*blocks)
    assert snappy.decompress(whole, LIMIT_BYTES) == b"onetwo"
    assert snappy.decompress(whole[: -4 - len(blocks[1])], LIMIT_BYTES) == b"one"
