"""Bounds on decompression: how large the output of a compressed block may grow.

A few hundred bytes can claim to be gigabytes. Two bounds stop that: an absolute one, and a ratio
that applies once the output is large, because small honest batches compress extremely well (a batch
of zeros reaches 16,000 : 1). Both are known before the first byte is decompressed, so each codec
streams into a `BoundedOutput` and no allocation follows a length that the sender declared. Where
a block is so small that it cannot pass its bound, or says a plausible size, one call of the library
does; that is what most batches are, and the bookkeeping would cost as much as the call.

Memory. The libraries collect the output of one call in parts and join them, which takes two to
three times the memory of the output. So a codec asks its library for at most `STEP_BYTES` at a
time, and the pieces go into one `BytesIO`, which grows by reallocation, by an eighth at most, and
gives its bytes away without a copy.

Invariants.
    A `BoundedOutput` never holds more than `allowed_bytes`.

Thread-safety: one `BoundedOutput` belongs to one call.
Source: the 64 MiB and 1,000 : 1 are kprod's own; Kafka's largest batch is 1 MiB by default
(message.max.bytes), so that both leave ample room.
"""

from io import SEEK_END, BytesIO
from typing import NoReturn

from kprod.errors import CorruptRecord

Buffer = bytes | bytearray | memoryview

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
RATIO_MAX = 1_000
RATIO_FREE_BYTES = 4 * 1024 * 1024
# Each step gives up the GIL once, and reacquiring it from a busy thread is expensive.
STEP_BYTES = 1024 * 1024


def allowed_bytes(input_bytes: int, limit_bytes: int) -> int:
    """Maximum size of a block's output.

    Args:
        input_bytes: Size of the whole compressed block; ≥ 0.
        limit_bytes: Absolute bound on the output; ≥ 0.

    Returns:
        The absolute bound, or the ratio's where that is smaller.
    """
    return min(limit_bytes, max(RATIO_FREE_BYTES, RATIO_MAX * input_bytes))


def reject_output(codec_name: str, input_bytes: int, bound_bytes: int) -> NoReturn:
    """Raise the error for output beyond its bound."""
    raise CorruptRecord(
        f"{codec_name}: {input_bytes} compressed bytes grow past {bound_bytes} bytes, "
        "the most that is read for a block of this size"
    )


class BoundedOutput:
    """Collects decompressed pieces and rejects the one that exceeds the bound.

    Args:
        codec_name: Name of the codec, for error texts.
        input_bytes: Size of the whole compressed block; ≥ 0.
        limit_bytes: Absolute bound on the output; ≥ 0.

    Thread-safety: one call only.
    """

    __slots__ = ("_codec_name", "_input_bytes", "_output", "_total_bytes", "allowed_bytes")

    def __init__(self, codec_name: str, input_bytes: int, limit_bytes: int) -> None:
        """Fix the bound for one block."""
        self.allowed_bytes: int = allowed_bytes(input_bytes, limit_bytes)
        self._codec_name = codec_name
        self._input_bytes = input_bytes
        self._output = BytesIO()
        self._total_bytes = 0

    @property
    def remaining_bytes(self) -> int:
        """Number of bytes that may still be added."""
        return self.allowed_bytes - self._total_bytes

    @property
    def step_bytes(self) -> int:
        """How much to ask a library for: one byte over the bound is enough to know; at least 1."""
        return min(STEP_BYTES, self.remaining_bytes + 1)

    def require(self, declared_bytes: int) -> None:
        """Reject a declared length before anything is done about it.

        Args:
            declared_bytes: Size of the next piece according to a header in the block.

        Raises:
            CorruptRecord: The piece would pass the bound.
        """
        if declared_bytes > self.remaining_bytes:
            reject_output(self._codec_name, self._input_bytes, self.allowed_bytes)

    def add(self, piece: bytes) -> None:
        """Add a piece.

        Args:
            piece: May be empty.

        Raises:
            CorruptRecord: The output would pass the bound.
        """
        self.require(len(piece))
        if self._total_bytes:
            self._output.write(piece)
        else:
            # It shares the first piece, which is all of most batches, until more is written.
            self._output = BytesIO(piece)
            self._output.seek(0, SEEK_END)
        self._total_bytes += len(piece)

    def joined(self) -> bytes:
        """All pieces in order; free of copies. Nothing can be added afterwards."""
        return self._output.getvalue()
