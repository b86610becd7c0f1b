"""zstd: ordinary frames, for message format V2 only.

A frame written here declares its content size, and one that does so plausibly is read in one call.
All others (Java streams and declares nothing) are read in slices of 1 KiB: the smallest block of
a frame has 4 bytes and yields 128 KiB, so that a slice overshoots the bound by at most 32 MiB
before it is counted.

Windows up to 128 MiB are accepted, which level 22 declares whatever the size of the batch; the
library allocates lazily and the output's bound comes first.

Thread-safety: any thread for the functions; a `Compressor` belongs to one thread at a time. The
calls give up the interpreter lock.
Source: RFC 8878; KIP-110; Kafka ZstdCompression (clients 4.3.1) for the levels.
"""

import zstandard

from kprod.compression.limits import BoundedOutput, Buffer
from kprod.errors import CorruptRecord

NAME = "zstd"
_SLICE_BYTES = 1024
_WINDOW_BYTES_MAX = 128 * 1024 * 1024
# A declared size is believed this far, so that a lie allocates next to nothing.
_PLAUSIBLE_RATIO = 32
_PLAUSIBLE_BYTES = 64 * 1024
# Nobody writes batches of many frames; without a bound an empty one costs a copy of a slice.
_FRAMES_MAX = 1_024


class Compressor:
    """A compression context that is used again for each block.

    Args:
        level: −131072 to 22.

    Thread-safety: one thread at a time.
    """

    __slots__ = ("_context",)

    def __init__(self, level: int) -> None:
        """Make the context."""
        self._context = zstandard.ZstdCompressor(level=level)

    def __call__(self, payload: Buffer) -> bytes:
        """Compress into one frame.

        Args:
            payload: Any bytes.

        Returns:
            The frame, with its content size.
        """
        return self._context.compress(payload)


def compress(payload: Buffer, level: int) -> bytes:
    """Compress into one frame, with a context of its own.

    Args:
        payload: Any bytes.
        level: −131072 to 22.

    Returns:
        The frame, with its content size.
    """
    return Compressor(level)(payload)


def decompress(payload: Buffer, limit_bytes: int) -> bytes:
    """Decompress one or more frames that fill `payload`.

    Args:
        payload: The whole block.
        limit_bytes: Most bytes of output; the ratio's bound applies as well.

    Returns:
        The contents of all frames.

    Raises:
        CorruptRecord: Truncated, malformed, followed by garbage, or too large.
    """
    view = memoryview(payload)
    output = BoundedOutput(NAME, len(view), limit_bytes)
    context = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    try:
        declared_bytes = zstandard.get_frame_parameters(view).content_size
        plausible_bytes = min(output.allowed_bytes, _PLAUSIBLE_BYTES + _PLAUSIBLE_RATIO * len(view))
        if 0 < declared_bytes <= plausible_bytes:
            whole = _read_whole(context, view)
            if whole is not None:
                return whole
        return _read_frames(context, view, output)
    except zstandard.ZstdError as error:
        msg = f"zstd: {error}"
        raise CorruptRecord(msg) from error


def _read_whole(context: zstandard.ZstdDecompressor, view: memoryview) -> bytes | None:
    """Read the single frame that `view` is, or None if it is something else."""
    try:
        return context.decompress(view, allow_extra_data=False)
    except zstandard.ZstdError:
        # Several frames, or a corrupt one: the slower way tells which.
        return None


def _read_frames(
    context: zstandard.ZstdDecompressor, view: memoryview, output: BoundedOutput
) -> bytes:
    """Read frame after frame to the end."""
    position = 0
    for _ in range(_FRAMES_MAX):
        position = _read_frame(context, view, position, output)
        if position == len(view):
            return output.joined()
    msg = f"zstd: more than {_FRAMES_MAX} frames in one block"
    raise CorruptRecord(msg)


def _read_frame(
    context: zstandard.ZstdDecompressor, view: memoryview, position: int, output: BoundedOutput
) -> int:
    """Decompress the frame at `position` and return where it ends."""
    parameters = zstandard.get_frame_parameters(view[position : position + _SLICE_BYTES])
    remaining_bytes = output.remaining_bytes
    frame = context.decompressobj()
    while not frame.eof:
        piece = view[position : position + _SLICE_BYTES]
        if not piece:
            msg = f"zstd: the block ends inside a frame, after {len(view)} bytes"
            raise CorruptRecord(msg)
        output.add(frame.decompress(piece))
        position += len(piece) - len(frame.unused_data)
    # The library lets a wrong size pass when the last block is empty. A skippable frame, which has
    # no window, gives the size of what is skipped.
    frame_bytes = remaining_bytes - output.remaining_bytes
    declared_bytes = parameters.content_size
    is_declared = parameters.window_size and declared_bytes != zstandard.CONTENTSIZE_UNKNOWN
    if is_declared and declared_bytes != frame_bytes:
        msg = f"zstd: a frame of {frame_bytes} bytes declares {declared_bytes}"
        raise CorruptRecord(msg)
    return position
