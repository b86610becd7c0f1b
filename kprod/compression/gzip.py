"""gzip: RFC 1952 members around deflate, by zlib; written by zlib-ng where it is installed.

Written as one member in one call. One of usual size is read in one call, too. Others are read in
slices, since zlib copies what it leaves of one: after the end of a member, or when a step's output
is full. A reader accepts several members after one another, as Java's does, up to a bound that
keeps the work per byte constant.

Thread-safety: any thread; the calls release the GIL.
Source: RFC 1952; Kafka GzipCompression (clients 4.3.1) for levels −1 and 1 to 9.
"""

import zlib
from collections.abc import Callable

from kprod.compression.limits import STEP_BYTES, BoundedOutput, Buffer, allowed_bytes
from kprod.errors import CorruptRecord

NAME = "gzip"
# zlib's number for a 32 KiB window in a gzip wrapper.
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_SLICE_BYTES = 128 * 1024
_SIZE_BYTES = 4  # the end of a member
# Nobody writes batches of many members; without a bound each empty one costs a copy of a slice.
_MEMBERS_MAX = 128


def _writer() -> Callable[..., bytes]:
    """Return zlib-ng's `compress`, or zlib's where the extra `gzip` is not installed."""
    try:
        from zlib_ng import zlib_ng  # noqa: PLC0415 - an extra
    except ImportError:
        return zlib.compress
    return zlib_ng.compress


_write = _writer()


def compress(payload: Buffer, level: int) -> bytes:
    """Compress into one member.

    Args:
        payload: Any bytes.
        level: −1 or 1 to 9.

    Returns:
        The member.
    """
    return _write(payload, level, wbits=_GZIP_WINDOW_BITS)


def decompress(payload: Buffer, limit_bytes: int) -> bytes:
    """Decompress one or more members that fill `payload`.

    Args:
        payload: The whole block.
        limit_bytes: Maximum size of the output; the limit of the ratio applies as well.

    Returns:
        The contents of all members.

    Raises:
        CorruptRecord: Truncated, malformed, followed by garbage, or too large.
    """
    if _declared_bytes(payload) <= STEP_BYTES:
        whole = _read_only_member(payload, allowed_bytes(len(payload), limit_bytes))
        if whole is not None:
            return whole
    view = memoryview(payload)
    output = BoundedOutput(NAME, len(view), limit_bytes)
    position = 0
    for _ in range(_MEMBERS_MAX):
        position = _read_member(view, position, output)
        if position == len(view):
            return output.joined()
    raise CorruptRecord(f"gzip: more than {_MEMBERS_MAX} members in one block")


def _declared_bytes(payload: Buffer) -> int:
    """The size that the last member's trailer tells, modulo 2^32: a hint, which may lie."""
    return int.from_bytes(payload[-_SIZE_BYTES:], "little")


def _read_only_member(payload: Buffer, bound_bytes: int) -> bytes | None:
    """Read the single, small member that `payload` is, or None if it is something else."""
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        # One byte over the bound is enough to know; 0 would mean "no bound".
        whole = member.decompress(payload, min(bound_bytes, STEP_BYTES) + 1)
    except zlib.error:
        return None
    if member.eof and not member.unused_data and len(whole) <= bound_bytes:
        return whole
    # Several members, a large or a corrupt one: the slower way tells which.
    return None


def _read_member(view: memoryview, position: int, output: BoundedOutput) -> int:
    """Decompress the member at `position` and return where it ends."""
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    while not member.eof:
        piece = view[position : position + _SLICE_BYTES]
        if not piece:
            raise CorruptRecord(f"gzip: the block ends inside a member, after {len(view)} bytes")
        try:
            output.add(member.decompress(piece, output.step_bytes))
        except zlib.error as error:
            raise CorruptRecord(f"gzip: {error}") from error
        position += len(piece) - len(member.unconsumed_tail) - len(member.unused_data)
    return position
