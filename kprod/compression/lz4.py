"""lz4: one frame of independent 64 KiB blocks.

Kafka's frame header is fixed: no checksums, no content size. Java's first implementation computed
the header's checksum over the frame's magic number too, and message format V0 keeps that mistake:
writers must make it, readers of V0 ignore the checksum. For V0 the reader therefore hands the
library a header with the checksum put right.

Levels are Java's: 9, its default, means the fast compressor, and any other the high compression of
that level, which the library has from 3 to 12.

Thread-safety: any thread; the calls release the GIL.
Source: lz4_Frame_format.md 1.6.1; Kafka Lz4BlockOutputStream and Lz4Compression (clients 4.3.1);
KAFKA-3160.
"""

import struct

import lz4.frame
import xxhash

from kprod._core.record.block_frames import lz4_frame_bytes_max
from kprod.compression.limits import STEP_BYTES, BoundedOutput, Buffer
from kprod.errors import CorruptRecord
from kprod.model import CODECS, Codec

NAME = "lz4"
FAST_LEVEL = CODECS[Codec.LZ4].levels.default
_FRAME_MAGIC = struct.pack("<I", 0x184D2204)
_FLG_OFFSET = 4
_BD_OFFSET = 5
# Magic number, FLG, BD, header checksum; 8 more where the content size is present.
_HEADER_BYTES_MIN = 7
_CONTENT_SIZE_BYTES = 8

_FLG_VERSION_MASK = 0xC0
_FLG_VERSION = 0x40
_FLG_INDEPENDENT = 0x20
_FLG_CONTENT_SIZE = 0x08
# The dictionary id is reserved in Kafka's reader.
_FLG_RESERVED_MASK = 0x03
_BD_RESERVED_MASK = 0x8F
_BD_SIZE_SHIFT = 4
_BD_SIZE_MIN = 4

_LIBRARY_FAST_LEVEL = 0
_LIBRARY_HIGH_LEVEL_MIN = 3
_LIBRARY_HIGH_LEVEL_MAX = 12


def library_level(level: int) -> int:
    """Translate Java's level into the library's.

    Args:
        level: 1 to 17.

    Returns:
        0 for the fast compressor, or 3 to 12.
    """
    if level == FAST_LEVEL:
        return _LIBRARY_FAST_LEVEL
    return min(max(level, _LIBRARY_HIGH_LEVEL_MIN), _LIBRARY_HIGH_LEVEL_MAX)


def compress(payload: Buffer, level: int) -> bytes:
    """Compress into one frame, for message formats V1 and V2.

    Args:
        payload: Any bytes.
        level: 1 to 17, Java's.

    Returns:
        The frame.
    """
    frame: bytes = lz4.frame.compress(
        payload,
        compression_level=library_level(level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def compress_v0(payload: Buffer, level: int) -> bytes:
    """Compress into one frame with the header checksum that message format V0 demands.

    Args:
        payload: Any bytes.
        level: 1 to 17, Java's.

    Returns:
        The frame.
    """
    frame = bytearray(compress(payload, level))
    checksum_offset = _HEADER_BYTES_MIN - 1
    frame[checksum_offset] = _header_checksum(frame[:checksum_offset])
    return bytes(frame)


def decompress(payload: Buffer, limit_bytes: int, *, check_header: bool = True) -> bytes:
    """Decompress the one frame that fills `payload`.

    Content size and checksums are checked where present, and never trusted for an allocation.

    Args:
        payload: The whole block.
        limit_bytes: Maximum size of the output; the limit of the ratio applies as well.
        check_header: False ignores the header's checksum, as readers of V0 must.

    Returns:
        The contents.

    Raises:
        CorruptRecord: Truncated, malformed, dependent blocks, reserved bits, followed by garbage,
            or too large.
    """
    # Above a step, one call would take more than twice the memory of the output. The ratio's bound
    # is above what lz4 can reach, so that the absolute one decides.
    if 0 <= lz4_frame_bytes_max(payload) <= min(limit_bytes, STEP_BYTES):
        try:
            return lz4.frame.decompress(payload)  # type: ignore[no-any-return]
        except RuntimeError as error:
            raise CorruptRecord(f"lz4: {error}") from error
    view = memoryview(payload)
    output = BoundedOutput(NAME, len(view), limit_bytes)
    header = _checked_header(view)
    if not check_header:
        header[-1] = _header_checksum(header[_FLG_OFFSET:-1])
    context = lz4.frame.create_decompression_context()
    try:
        _feed(context, header, output)
        end = _feed(context, view[len(header) :], output, start=len(header))
    except RuntimeError as error:
        raise CorruptRecord(f"lz4: {error}") from error
    if end != len(view):
        raise CorruptRecord(f"lz4: {len(view) - end} bytes follow the end of the frame")
    return output.joined()


def _header_checksum(covered: Buffer) -> int:
    """The second byte of the 32-bit xxHash."""
    digest = xxhash.xxh32_intdigest(bytes(covered))
    return (digest >> 8) & 0xFF


def _checked_header(view: memoryview) -> bytearray:
    """Copy the frame's header after rejecting headers that Kafka's readers reject."""
    if len(view) < _HEADER_BYTES_MIN:
        raise CorruptRecord(f"lz4: the frame's header has {len(view)} of {_HEADER_BYTES_MIN} bytes")
    if view[:_FLG_OFFSET] != _FRAME_MAGIC:
        raise CorruptRecord(f"lz4: a frame begins with {_FRAME_MAGIC.hex()}, not {view[:4].hex()}")
    flags, block_descriptor = view[_FLG_OFFSET], view[_BD_OFFSET]
    if flags & _FLG_VERSION_MASK != _FLG_VERSION:
        raise CorruptRecord(f"lz4: frame version {flags >> 6}, only 1 is known")
    if flags & _FLG_RESERVED_MASK or block_descriptor & _BD_RESERVED_MASK:
        raise CorruptRecord(f"lz4: reserved bits are set: FLG {flags:#x}, BD {block_descriptor:#x}")
    if not flags & _FLG_INDEPENDENT:
        raise CorruptRecord("lz4: the blocks depend on one another, which Kafka's format forbids")
    if block_descriptor >> _BD_SIZE_SHIFT < _BD_SIZE_MIN:
        raise CorruptRecord(f"lz4: unknown block size in BD {block_descriptor:#x}")
    header_bytes = _HEADER_BYTES_MIN
    if flags & _FLG_CONTENT_SIZE:
        header_bytes += _CONTENT_SIZE_BYTES
    if len(view) < header_bytes:
        raise CorruptRecord(f"lz4: the frame's header has {len(view)} of {header_bytes} bytes")
    return bytearray(view[:header_bytes])


def _feed(context: object, source: Buffer, output: BoundedOutput, *, start: int = 0) -> int:
    """Decompress the header, or all that follows it and begins at `start`; return where it ends."""
    is_header = isinstance(source, bytearray)
    view = memoryview(source)
    position = 0
    while True:
        piece, read_bytes, at_end = lz4.frame.decompress_chunk(
            context, view[position:], max_length=output.step_bytes
        )
        output.add(piece)
        position += read_bytes
        if at_end or (is_header and position == len(view)):
            return start + int(position)
        if not piece and not read_bytes:
            raise CorruptRecord(f"lz4: the frame is cut off after {start + position} bytes")
