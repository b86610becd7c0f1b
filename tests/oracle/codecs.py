"""The five codecs as the record formats frame them, straight over the libraries, with no limits.

Source: Kafka common/compress (clients 4.3.1), xerial SnappyOutputStream, the LZ4 frame format 1.6.
"""

import struct
import zlib

import lz4.frame
import snappy
import xxhash
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
LZ4_MAGIC = b"\x04\x22\x4d\x18"
GZIP_WINDOW_BITS = 31


def compress(codec: int, payload: bytes, magic: int = 2) -> bytes:
    """Return `payload` compressed as a batch of that magic holds it."""
    if codec == NONE:
        return payload
    if codec == GZIP:
        packer = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
        return packer.compress(payload) + packer.flush()
    if codec == SNAPPY:
        return _xerial_compress(payload)
    if codec == LZ4:
        return _lz4_compress(payload, magic)
    if codec == ZSTD and magic >= 2:
        return zstandard.ZstdCompressor().compress(payload)
    raise ValueError(f"no codec {codec} in magic {magic}")


def decompress(codec: int, payload: bytes, magic: int = 2) -> bytes:
    """Return what `compress` was given."""
    if codec == NONE:
        return payload
    if codec == GZIP:
        return zlib.decompress(payload, wbits=GZIP_WINDOW_BITS)
    if codec == SNAPPY:
        return _xerial_decompress(payload)
    if codec == LZ4:
        fixed = payload if magic else _with_lz4_header_checksum(payload, magic=2)
        return bytes(lz4.frame.decompress(fixed))
    if codec == ZSTD and magic >= 2:
        return zstandard.ZstdDecompressor().decompressobj().decompress(payload)
    raise ValueError(f"no codec {codec} in magic {magic}")


def _xerial_compress(payload: bytes) -> bytes:
    pieces = [XERIAL_HEADER]
    for at in range(0, len(payload), XERIAL_BLOCK_BYTES):
        block = snappy.compress(payload[at : at + XERIAL_BLOCK_BYTES])
        pieces += [struct.pack(">i", len(block)), block]
    return b"".join(pieces)


def _xerial_decompress(payload: bytes) -> bytes:
    if not payload.startswith(XERIAL_HEADER[:8]):
        return bytes(snappy.decompress(payload))
    pieces = []
    at = len(XERIAL_HEADER)
    while at < len(payload):
        (length,) = struct.unpack_from(">i", payload, at)
        pieces.append(snappy.decompress(payload[at + 4 : at + 4 + length]))
        at += 4 + length
    return b"".join(pieces)


def _lz4_compress(payload: bytes, magic: int) -> bytes:
    frame = lz4.frame.compress(
        payload, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return _with_lz4_header_checksum(frame, magic)


def _with_lz4_header_checksum(frame: bytes, magic: int) -> bytes:
    """Magic 0 hashed the frame's four magic bytes too, by mistake; readers had to live with it."""
    flags = frame[4]
    descriptor_end = 6 + (8 if flags & 0x08 else 0)
    hashed = frame[:descriptor_end] if magic == 0 else frame[4:descriptor_end]
    checksum = (xxhash.xxh32(hashed, seed=0).intdigest() >> 8) & 0xFF
    return frame[:descriptor_end] + bytes([checksum]) + frame[descriptor_end + 1 :]
