"""zstd: ordinary frames, for message format V2 only.

A frame written here declares its content size, and one that does so plausibly is read in one call.
All others (Java streams and declares nothing) are read in slices of 1 KiB: the smallest block of
a frame has 4 bytes and yields 128 KiB, so that a slice overshoots the bound by at most 32 MiB
before it is counted.

Windows up to 128 MiB are accepted, which level 22 declares whatever the size of the batch; the
library allocates lazily and the output's bound comes first.

Thread-safety: any thread for the functions; a `Compressor` belongs to one thread at a time. The
    calls release the GIL.
Source: RFC 8878; KIP-110; Kafka ZstdCompression (clients 4.3.1) for the levels.
"""

from collections import deque

import zstandard

from kprod.compression.limits import BoundedOutput, Buffer, allowed_bytes
from kprod.errors import CorruptRecord

NAME = "zstd"
_SLICE_BYTES = 1024
_WINDOW_BYTES_MAX = 128 * 1024 * 1024
# A declared size is believed this far, so that a lie allocates next to nothing.
_PLAUSIBLE_RATIO = 32
_PLAUSIBLE_BYTES = 64 * 1024
# Nobody writes batches of many frames; without a bound an empty one costs a copy of a slice.
_FRAMES_MAX = 1_024

# Contexts that read a frame in one call, which needs no window: each keeps some 100 KiB. Making one
# costs as much as reading a small batch. Taking and giving back are single steps of any thread.
_idle_contexts: deque[zstandard.ZstdDecompressor] = deque(maxlen=4)


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
    """Compress into one frame, with a new context.

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
        limit_bytes: Maximum size of the output; the limit of the ratio applies as well.

    Returns:
        The contents of all frames.

    Raises:
        CorruptRecord: Truncated, malformed, followed by garbage, or too large.
    """
    try:
        if _is_plausible(payload, limit_bytes):
            whole = _read_whole(payload)
            if whole is not None:
                return whole
        return _read_frames(payload, BoundedOutput(NAME, len(payload), limit_bytes))
    except zstandard.ZstdError as error:
        raise CorruptRecord(f"zstd: {error}") from error


def _is_plausible(payload: Buffer, limit_bytes: int) -> bool:
    """Whether the first frame declares a size that may be believed."""
    declared_bytes = zstandard.frame_content_size(payload)
    plausible_bytes = _PLAUSIBLE_BYTES + _PLAUSIBLE_RATIO * len(payload)
    return 0 < declared_bytes <= min(plausible_bytes, allowed_bytes(len(payload), limit_bytes))


def _read_whole(payload: Buffer) -> bytes | None:
    """Read the single frame that `payload` is, or None if it is something else."""
    try:
        context = _idle_contexts.pop()
    except IndexError:
        context = zstandard.ZstdDecompressor()
    try:
        whole = context.decompress(payload, allow_extra_data=False)
    except zstandard.ZstdError:
        # Several frames, or a corrupt one: the slower way tells which.
        return None
    _idle_contexts.append(context)
    return whole


def _read_frames(payload: Buffer, output: BoundedOutput) -> bytes:
    """Read frame after frame to the end."""
    view = memoryview(payload)
    context = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    position = 0
    for _ in range(_FRAMES_MAX):
        position = _read_frame(context, view, position, output)
        if position == len(view):
            return output.joined()
    raise CorruptRecord(f"zstd: more than {_FRAMES_MAX} frames in one block")


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
            raise CorruptRecord(f"zstd: the block ends inside a frame, after {len(view)} bytes")
        output.add(frame.decompress(piece))
        position += len(piece) - len(frame.unused_data)
    # Checked here, since the library accepts a wrong size if the last block is empty. A skippable
    # frame (no window) is exempt: its content_size is that of the skipped bytes.
    frame_bytes = remaining_bytes - output.remaining_bytes
    declared_bytes = parameters.content_size
    is_declared = parameters.window_size and declared_bytes != zstandard.CONTENTSIZE_UNKNOWN
    if is_declared and declared_bytes != frame_bytes:
        raise CorruptRecord(f"zstd: a frame of {frame_bytes} bytes declares {declared_bytes}")
    return position
