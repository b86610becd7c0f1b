"""zstd: frames with and without a content size, several of them, windows."""

import random
import struct

import pytest
import zstandard

from kprod.compression import zstd
from kprod.errors import CorruptRecord

LIMIT_BYTES = 1 << 20


def _streamed(payload: bytes, level: int = 3) -> bytes:
    """Compress as Java does: a stream, whose frame declares no content size."""
    packer = zstandard.ZstdCompressor(level=level).compressobj()
    return packer.compress(payload) + packer.flush()


def test_frame_declares_its_size() -> None:
    """Our frames carry the content size, so that readers need one call."""
    assert zstandard.get_frame_parameters(zstd.compress(b"x" * 1_000, 3)).content_size == 1_000


def test_compressor_is_used_again() -> None:
    """One context serves many batches and gives what a fresh one gives."""
    pack = zstd.Compressor(5)
    for length in (0, 1, 5_000, 3):
        assert pack(b"y" * length) == zstd.compress(b"y" * length, 5)


@pytest.mark.parametrize("length", [0, 1, 1_000, 200_000])
def test_streamed_frame(length: int) -> None:
    """A frame without a content size is read."""
    payload = random.Random(6).randbytes(length // 2) + b"z" * (length - length // 2)
    frame = _streamed(payload)
    assert zstandard.get_frame_parameters(frame).content_size in {zstandard.CONTENTSIZE_UNKNOWN, 0}
    assert zstd.decompress(frame, LIMIT_BYTES) == payload


def test_window_of_level_22() -> None:
    """Level 22 declares a window of 128 MiB for the smallest stream."""
    frame = _streamed(b"w" * 1_000, level=22)
    assert zstandard.get_frame_parameters(frame).window_size == 128 << 20
    assert zstd.decompress(frame, LIMIT_BYTES) == b"w" * 1_000


def test_larger_window_is_rejected() -> None:
    """A window past 128 MiB is corrupt, before it is allocated."""
    # Magic number, no flags, window descriptor of 2^28, one empty raw block that is the last.
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes((18 << 3,)) + b"\x01\x00\x00"
    with pytest.raises(CorruptRecord, match="zstd"):
        zstd.decompress(frame, LIMIT_BYTES)


def test_several_frames() -> None:
    """Frames after one another read as one, with and without content sizes."""
    frames = [zstd.compress(b"one", 3), _streamed(b"two"), zstd.compress(b"", 3), _streamed(b"3")]
    assert zstd.decompress(b"".join(frames), LIMIT_BYTES) == b"onetwo3"


def test_too_many_frames() -> None:
    """A block of endless empty frames is rejected rather than followed."""
    with pytest.raises(CorruptRecord, match="1024 frames"):
        zstd.decompress(zstd.compress(b"", 3) * 1_025, LIMIT_BYTES)


@pytest.mark.parametrize("declared_bytes", [1, 6, 8, 1 << 19, 1 << 40, (1 << 64) - 3])
def test_content_size_that_lies(declared_bytes: int) -> None:
    """A declared size that is not the content's is corrupt, and nothing is allocated for it."""
    # Single segment, 8-byte content size; one raw block of 7 bytes that is the last.
    head = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", declared_bytes)
    frame = head + (7 << 3 | 1).to_bytes(3, "little") + b"payload"
    with pytest.raises(CorruptRecord, match="zstd"):
        zstd.decompress(frame, LIMIT_BYTES)


@pytest.mark.parametrize("declared_bytes", [1, 1 << 20, 1 << 40])
def test_empty_frame_that_declares_a_size(declared_bytes: int) -> None:
    """The library lets an empty last block end a frame early; the size still counts."""
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", declared_bytes) + b"\x01\x00\x00"
    with pytest.raises(CorruptRecord, match="zstd"):
        zstd.decompress(frame, LIMIT_BYTES)


def test_skippable_frame() -> None:
    """A skippable frame between others says nothing."""
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"other"
    packed = zstd.compress(b"one", 3) + skipped + _streamed(b"two")
    assert zstd.decompress(packed, LIMIT_BYTES) == b"onetwo"


def test_bomb_of_repeated_bytes() -> None:
    """Blocks of 4 bytes that yield 128 KiB each stop at the bound."""
    repeated = ((128 << 10) << 3 | 2).to_bytes(3, "little") + b"\x00"
    frame = b"\x28\xb5\x2f\xfd\x00\x38" + repeated * 5_000
    with pytest.raises(CorruptRecord, match="grow past 20"):
        zstd.decompress(frame, 64 << 20)


def test_checksum_is_checked() -> None:
    """A wrong content checksum is corrupt."""
    frame = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"payload"))
    assert zstd.decompress(frame, LIMIT_BYTES) == b"payload"
    frame[-1] ^= 1
    with pytest.raises(CorruptRecord, match="zstd"):
        zstd.decompress(frame, LIMIT_BYTES)


def test_dictionary_is_rejected() -> None:
    """A frame that needs a dictionary cannot be read."""
    samples: list[bytes | bytearray | memoryview] = [
        f"sample {number} of many {number * 7}".encode() for number in range(2_000)
    ]
    dictionary = zstandard.train_dictionary(1_000, samples)
    frame = zstandard.ZstdCompressor(dict_data=dictionary).compress(b"sample 0 of many 0")
    with pytest.raises(CorruptRecord, match="zstd"):
        zstd.decompress(frame, LIMIT_BYTES)
