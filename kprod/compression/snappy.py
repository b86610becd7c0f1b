"""snappy: raw blocks inside the framing of Java's xerial library.

A stream is a 16-byte header and blocks, each preceded by its compressed length. Blocks of 1 MiB
are written instead of xerial's 32 KiB: each block releases the GIL once, and reacquiring it from a
busy thread takes up to 5 ms. Readers accept any block size, and a block without framing.

Bounds. A snappy element of 3 bytes yields at most 64, so a declared length that the compressed
bytes cannot reach is rejected before the library allocates memory. This ratio of 22 : 1 is below
the general limit, so only the absolute limit is checked.

Thread-safety: any thread; the calls release the GIL, once for each block.
Source: xerial SnappyOutputStream; google/snappy format_description.txt (2011-10-05).
"""

import struct

import snappy

from kprod._core.record.block_frames import snappy_block_bytes
from kprod.compression.limits import BoundedOutput, Buffer, reject_output
from kprod.errors import CorruptRecord

NAME = "snappy"
XERIAL_MAGIC = b"\x82SNAPPY\x00"
BLOCK_BYTES = 1024 * 1024
_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_LENGTH = struct.Struct(">i")
_FIRST_BLOCK = slice(len(_XERIAL_HEADER) + _LENGTH.size, None)
# A copy element of 3 bytes yields 64 bytes: 21.3 : 1, rounded up.
_EXPANSION_MAX = 22
_DECLARED_VARINT_BYTES_MAX = 5
_VARINT_MASK = 0x7F


def compress(payload: Buffer) -> bytes:
    """Compress into a xerial stream.

    Args:
        payload: Any bytes.

    Returns:
        Header and blocks.
    """
    view = memoryview(payload)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), BLOCK_BYTES):
        block = snappy.compress(view[start : start + BLOCK_BYTES])
        pieces += (_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def decompress(payload: Buffer, limit_bytes: int) -> bytes:
    """Decompress a xerial stream or one raw block.

    A stream that was cut between two blocks reads as a shorter stream: the framing has no end mark,
    and the count of records in the batch tells.

    Args:
        payload: The whole block; its first 8 bytes show the framing.
        limit_bytes: Maximum size of the output; the limit of the ratio applies as well.

    Returns:
        The contents.

    Raises:
        CorruptRecord: Truncated, malformed, or too large.
    """
    if 0 <= snappy_block_bytes(payload) <= limit_bytes:
        return _read_block(memoryview(payload)[_FIRST_BLOCK])
    view = memoryview(payload)
    if payload[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        if _declared_bytes(view) > limit_bytes:
            reject_output(NAME, len(view), limit_bytes)
        return _read_block(view)
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise CorruptRecord(f"snappy: the stream's header has {len(view)} of {position} bytes")
    # The two version numbers are ignored: some producers write them little endian.
    output = BoundedOutput(NAME, len(view), limit_bytes)
    while position < len(view):
        end = _block_end(view, position)
        block = view[position + _LENGTH.size : end]
        output.require(_declared_bytes(block))
        output.add(_read_block(block))
        position = end
    return output.joined()


def _block_end(view: memoryview, position: int) -> int:
    """Return the end of the block whose length is at `position` ends."""
    remaining_bytes = len(view) - position - _LENGTH.size
    if remaining_bytes < 0:
        raise CorruptRecord(f"snappy: the stream ends inside a block's length, at byte {position}")
    length = _LENGTH.unpack_from(view, position)[0]
    if not 0 <= length <= remaining_bytes:
        raise CorruptRecord(
            f"snappy: a block of {length} bytes at byte {position}, with {remaining_bytes} left"
        )
    return position + _LENGTH.size + int(length)


def _declared_bytes(block: memoryview) -> int:
    """The length at the head of a raw block, a varint of at most 32 bits, if it is plausible."""
    declared_bytes = shift = 0
    for byte in block[:_DECLARED_VARINT_BYTES_MAX]:
        declared_bytes |= (byte & _VARINT_MASK) << shift
        if byte <= _VARINT_MASK:
            break
        shift += 7
    else:
        raise CorruptRecord(f"snappy: a block of {len(block)} bytes has no declared length")
    if declared_bytes > _EXPANSION_MAX * len(block):
        raise CorruptRecord(f"snappy: a block of {len(block)} bytes declares {declared_bytes}")
    return declared_bytes


def _read_block(block: memoryview) -> bytes:
    """Decompress one raw block; the library fails unless it has just the declared length."""
    try:
        return snappy.uncompress(block)  # type: ignore[no-any-return]
    except snappy.UncompressError as error:
        raise CorruptRecord(f"snappy: {error.__cause__ or error}") from error
