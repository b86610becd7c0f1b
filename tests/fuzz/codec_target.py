"""Compressed blocks: whatever is accepted must be what the library alone makes of it.

An input is a byte for the codec, a byte for the format, and the block.
"""

import gzip
import io
import random
import struct
from collections.abc import Callable

import lz4.frame
import snappy
import xxhash
import zstandard

from kprod.compression import compress, decompress
from kprod.errors import CorruptRecord
from kprod.model import Codec
from tests.fuzz.target import INTERESTING, FindingError, Target, planted, signature

OUTPUT_BYTES_MAX = 1 << 20
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = 16
LZ4_HEADER_BYTES = 7
HEAD_BYTES = 2


def seeds() -> list[bytes]:
    """Blocks of each codec, of several shapes, and some that a stream wrote."""
    payloads = (b"", b"abc", b"key and value " * 30, bytes(3_000))
    made = []
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        for magic in (0, 2) if codec is Codec.LZ4 else (2,):
            head = bytes((codec, magic))
            made += [head + bytes(compress(codec, payload, magic=magic)) for payload in payloads]
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    made.append(bytes((Codec.ZSTD, 2)) + stream.compress(payloads[2]) + stream.flush())
    made.append(bytes((Codec.SNAPPY, 2)) + snappy.compress(payloads[2]))
    xerial = XERIAL_MAGIC + bytes(8)
    xerial += b"".join(
        struct.pack(">i", len(block)) + block
        for block in (snappy.compress(payload) for payload in payloads)
    )
    made.append(bytes((Codec.SNAPPY, 2)) + xerial)
    full = lz4.frame.compress(
        payloads[2], block_linked=False, content_checksum=True, block_checksum=True
    )
    made.append(bytes((Codec.LZ4, 2)) + full)
    return made


def xerial_length(rng: random.Random, content: bytes) -> bytes:
    """Change the length of a block in a xerial stream, most often by little."""
    places = _xerial_lengths(content[HEAD_BYTES:])
    if not places:
        return content
    place = HEAD_BYTES + rng.choice(places)
    (present,) = struct.unpack_from(">i", content, place)
    wanted = rng.choice((*INTERESTING, *(present + step for step in (-2, -1, 1, 2, 5))))
    return content[:place] + struct.pack(">I", wanted & 0xFFFFFFFF) + content[place + 4 :]


def lz4_header(rng: random.Random, content: bytes) -> bytes:
    """Change flags of an lz4 frame, with a right checksum for them."""
    if len(content) < HEAD_BYTES + 7 or content[0] != Codec.LZ4:
        return content
    flags = content[HEAD_BYTES + 4] ^ (1 << rng.randrange(8))
    block_descriptor = rng.choice((0x40, 0x50, 0x60, 0x70, 0x30, 0xC0, 0x41))
    extra = struct.pack("<q", rng.choice(INTERESTING)) if flags & 0x08 else b""
    descriptor = bytes((flags, block_descriptor)) + extra
    checksum = (xxhash.xxh32_intdigest(descriptor) >> 8) & 0xFF
    end = HEAD_BYTES + 4
    return content[:end] + descriptor + bytes((checksum,)) + content[end + 3 :]


def lz4_length(rng: random.Random, content: bytes) -> bytes:
    """Change the length of a block in an lz4 frame, most often by little, or its highest bit."""
    places = _lz4_lengths(content[HEAD_BYTES:])
    if not places or content[0] != Codec.LZ4:
        return content
    place = HEAD_BYTES + rng.choice(places)
    (present,) = struct.unpack_from("<I", content, place)
    steps = (present + step for step in (-2, -1, 1, 2, 5))
    wanted = rng.choice((*INTERESTING, *steps, present ^ (1 << 31), 0))
    return content[:place] + struct.pack("<I", wanted & 0xFFFFFFFF) + content[place + 4 :]


def zstd_content_size(rng: random.Random, content: bytes) -> bytes:
    """Give a zstd frame a header of the largest kind, with a content size that may lie."""
    if len(content) < HEAD_BYTES + 6 or content[0] != Codec.ZSTD:
        return content
    size = struct.pack("<q", rng.choice(INTERESTING))
    window = bytes((rng.randrange(256),))
    header = rng.choice((b"\xe0" + size, b"\xc0" + window + size, b"\x00" + window))
    end = HEAD_BYTES + 4
    return content[:end] + header + content[end + rng.randrange(1, 4) :]


def check(content: bytes) -> str:
    """Decompress within the bound; only CorruptRecord may be raised, and no byte may differ."""
    if len(content) < HEAD_BYTES:
        return "too short"
    codec, magic, block = content[0] % 8, content[1] % 3, content[HEAD_BYTES:]
    try:
        out = decompress(codec, block, magic=magic, limit_bytes=OUTPUT_BYTES_MAX)
    except CorruptRecord as error:
        return signature(error)
    if len(out) > OUTPUT_BYTES_MAX:
        raise FindingError(f"{len(out)} bytes, the bound is {OUTPUT_BYTES_MAX}")
    reference = REFERENCES.get(codec)
    # In V0 the header's checksum may be wrong, which the library rejects.
    if reference is not None and (codec != Codec.LZ4 or magic):
        try:
            expected = reference(block)
        except Exception as error:
            raise FindingError(
                f"codec {codec}: accepted what the library rejects: {error!r}"
            ) from error
        if expected != out:
            raise FindingError(f"codec {codec}: {len(out)} bytes, the library says {len(expected)}")
    return f"codec {codec}, {len(out).bit_length()} bits of bytes"


def _xerial_lengths(block: bytes) -> list[int]:
    """Where the lengths are in a stream, as far as they lead."""
    places: list[int] = []
    position = XERIAL_HEADER_BYTES
    if not block.startswith(XERIAL_MAGIC):
        return places
    while 0 <= position <= len(block) - 4:
        places.append(position)
        position += 4 + max(struct.unpack_from(">i", block, position)[0], 0)
    return places


def _lz4_lengths(block: bytes) -> list[int]:
    """Where the lengths are in a frame without sizes and checksums, as far as they lead."""
    places: list[int] = []
    position = LZ4_HEADER_BYTES
    while position <= len(block) - 4:
        places.append(position)
        position += 4 + (struct.unpack_from("<I", block, position)[0] & 0x7FFFFFFF)
    return places


def _read_snappy(block: bytes) -> bytes:
    """Follow the framing literally, every length exact."""
    if not block.startswith(XERIAL_MAGIC):
        return bytes(snappy.decompress(block))
    stream = io.BytesIO(block)
    stream.seek(XERIAL_HEADER_BYTES)
    out = b""
    while head := stream.read(4):
        (length,) = struct.unpack(">i", head)
        piece = stream.read(length) if length >= 0 else b""
        if len(piece) != length:
            raise ValueError(f"block of {length} bytes has {len(piece)}")
        out += snappy.decompress(piece)
    return out


def _read_zstd(block: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(block, read_across_frames=True) as stream:
        return stream.read()


REFERENCES: dict[int, Callable[[bytes], bytes]] = {
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: _read_snappy,
    Codec.LZ4: lz4.frame.decompress,
    Codec.ZSTD: _read_zstd,
}

TARGET = Target(
    name="codec",
    seeds=seeds,
    mutators=(xerial_length, lz4_header, lz4_length, zstd_content_size),
    check=check,
    planted=planted("codec"),
)
