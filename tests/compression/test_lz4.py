"""lz4: Kafka's exact frame header, the mistake of format V0, what readers reject."""

import struct

import lz4.frame as library
import pytest
import xxhash

from kprod.compression import lz4
from kprod.errors import CorruptRecord

LIMIT_BYTES = 1 << 20
MAGIC = b"\x04\x22\x4d\x18"


def _with_header(frame: bytes, flags: int, block_descriptor: int, extra: bytes = b"") -> bytes:
    """Replace the 7-byte header of `frame`, with a right checksum."""
    descriptor = bytes((flags, block_descriptor)) + extra
    checksum = (xxhash.xxh32_intdigest(descriptor) >> 8) & 0xFF
    return MAGIC + descriptor + bytes((checksum,)) + frame[7:]


def test_golden_frames() -> None:
    """Header, one stored block and the end mark; V0 differs in the checksum alone."""
    rest = b"\x05\x00\x00\x80hello" + bytes(4)
    assert lz4.compress(b"hello", 9) == MAGIC + b"\x60\x40\x82" + rest
    assert lz4.compress_v0(b"hello", 9) == MAGIC + b"\x60\x40\x1a" + rest
    assert lz4.compress(b"", 9) == MAGIC + b"\x60\x40\x82" + bytes(4)


def test_header_is_always_the_same() -> None:
    """Neither size nor level changes the seven bytes."""
    for length in (0, 1, 65_536, 65_537, 300_000):
        for level in (1, 9, 12, 17):
            assert lz4.compress(b"x" * length, level)[:7] == MAGIC + b"\x60\x40\x82"


@pytest.mark.parametrize(
    ("level", "expected"), [(9, 0), (1, 3), (3, 3), (8, 8), (10, 10), (12, 12), (13, 12), (17, 12)]
)
def test_levels_are_javas(level: int, expected: int) -> None:
    """9 is the fast compressor, all others the high compression, within the library's range."""
    assert lz4.library_level(level) == expected


def test_v0_ignores_the_header_checksum() -> None:
    """Readers of V0 take either checksum, readers of later formats only the right one."""
    wrong = lz4.compress_v0(b"hello" * 100, 9)
    right = lz4.compress(b"hello" * 100, 9)
    for frame in (wrong, right):
        assert lz4.decompress(frame, LIMIT_BYTES, check_header=False) == b"hello" * 100
    with pytest.raises(CorruptRecord, match="lz4"):
        lz4.decompress(wrong, LIMIT_BYTES)


@pytest.mark.parametrize("check_header", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_optional_fields_are_tolerated(block_size: int, *, check_header: bool) -> None:
    """Content size, both checksums and larger blocks are read."""
    payload = b"0123456789" * 30_000
    frame = library.compress(
        payload,
        block_size=block_size,
        block_linked=False,
        content_checksum=True,
        block_checksum=True,
        store_size=True,
    )
    assert lz4.decompress(frame, LIMIT_BYTES, check_header=check_header) == payload


def test_checksums_are_checked() -> None:
    """A wrong content checksum is corrupt."""
    frame = bytearray(
        library.compress(b"payload", block_linked=False, content_checksum=True, store_size=False)
    )
    frame[-1] ^= 1
    with pytest.raises(CorruptRecord, match="lz4"):
        lz4.decompress(frame, LIMIT_BYTES)


@pytest.mark.parametrize("declared_bytes", [0, 6, 8, 2**62, 2**64 - 1])
def test_content_size_that_lies(declared_bytes: int) -> None:
    """A content size that is not the content's is corrupt, and nothing is allocated for it."""
    size = struct.pack("<Q", declared_bytes)
    frame = _with_header(lz4.compress(b"payload", 9), 0x68, 0x40, size)
    # The library takes a declared 0 for "unknown".
    if declared_bytes == 0:
        assert lz4.decompress(frame, LIMIT_BYTES) == b"payload"
        return
    with pytest.raises(CorruptRecord, match="lz4"):
        lz4.decompress(frame, LIMIT_BYTES)


@pytest.mark.parametrize(
    ("flags", "block_descriptor", "reason"),
    [
        (0x40, 0x40, "depend on one another"),
        (0x61, 0x40, "reserved bits"),
        (0x62, 0x40, "reserved bits"),
        (0x60, 0xC0, "reserved bits"),
        (0x60, 0x41, "reserved bits"),
        (0x20, 0x40, "frame version 0"),
        (0xA0, 0x40, "frame version 2"),
        (0x60, 0x30, "unknown block size"),
    ],
)
def test_rejected_headers(flags: int, block_descriptor: int, reason: str) -> None:
    """Blocks that Kafka's readers reject are rejected, with and without a checksum."""
    frame = _with_header(lz4.compress(b"payload", 9), flags, block_descriptor)
    for check_header in (True, False):
        with pytest.raises(CorruptRecord, match=reason):
            lz4.decompress(frame, LIMIT_BYTES, check_header=check_header)


def test_wrong_magic() -> None:
    """Another frame's magic number is corrupt, a skippable frame's too."""
    with pytest.raises(CorruptRecord, match="begins with 04224d18"):
        lz4.decompress(b"\x50\x2a\x4d\x18" + bytes(20), LIMIT_BYTES)


def test_second_frame_is_garbage() -> None:
    """Kafka's format has one frame."""
    frame = lz4.compress(b"payload", 9)
    with pytest.raises(CorruptRecord, match="18 bytes follow" if len(frame) == 18 else "follow"):
        lz4.decompress(frame * 2, LIMIT_BYTES)


def test_a_cut_frame_is_cut_off_where_it_ends() -> None:
    """The size is the frame's, with its header; it is the same inside a block and between two."""
    frame = library.compress(bytes(300_000), block_linked=False, store_size=True)
    for cut_bytes in (1, 4, 5, 20):
        size = len(frame) - cut_bytes
        with pytest.raises(CorruptRecord, match=f"lz4: the frame is cut off after {size} bytes$"):
            lz4.decompress(frame[:size], LIMIT_BYTES, check_header=False)


def test_many_steps() -> None:
    """A block that grows past one step is read whole, whatever the step cuts."""
    payload = b"".join(number.to_bytes(4, "big") * 61 for number in range(20_000))
    assert lz4.decompress(lz4.compress(payload, 9), 8 << 20) == payload
