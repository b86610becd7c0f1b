"""Splits a byte stream into length-prefixed frames.

The length field is not trusted: bytes are received into a scratch buffer that all connections
share, and a frame's memory grows with the bytes that arrived. An unfinished frame uses at most an
eighth more than its bytes, since a bytearray over-allocates by that much. Copying a large frame a
second time costs less than zeroing its memory would.

Thread-safety: none; the connection's owner calls it.
Source: Kafka protocol guide (a frame is an int32 size and that many bytes).
"""

from kprod.errors import RemoteProtocolError

SIZE_BYTES = 4
SCRATCH_BYTES = 256 * 1024


class FrameReader:
    """Collects the bytes of one connection into frames.

    Use `target` to receive into, then `received` with the count.
    """

    __slots__ = ("_body", "_frame_bytes_max", "_head", "_limit_bytes", "_scratch", "_size")

    def __init__(self, frame_bytes_max: int, scratch: memoryview) -> None:
        """Start at the beginning of a frame.

        Args:
            frame_bytes_max: Maximum size of a frame, in bytes, without its size field.
            scratch: Buffer shared by all readers of a thread; its content is valid until
                `received`.
        """
        self._frame_bytes_max = frame_bytes_max
        self._limit_bytes = frame_bytes_max
        self._scratch = scratch
        self._head = b""
        self._body: bytearray | None = None
        self._size = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is no unfinished frame."""
        return self._body is None and not self._head

    @property
    def held_bytes(self) -> int:
        """Bytes of the unfinished frame."""
        return 0 if self._body is None else len(self._body)

    def limit(self, frame_bytes_max: int) -> None:
        """Set a lower limit for frames, until `lift`."""
        self._limit_bytes = min(self._frame_bytes_max, frame_bytes_max)

    def lift(self) -> None:
        """Restore the normal limit, from the next frame on."""
        self._limit_bytes = self._frame_bytes_max

    def target(self) -> memoryview:
        """Return the buffer for the next bytes; release it before `received`."""
        return self._scratch[:]

    def received(self, count: int) -> list[bytearray]:
        """Process bytes that were received into `target`.

        Args:
            count: Number of bytes, at least 1.

        Returns:
            The completed frames, without their size fields.

        Raises:
            RemoteProtocolError: A size is negative, zero or above the limit.
        """
        frames: list[bytearray] = []
        at = 0
        while at < count:
            if self._body is None:
                at = self._open(at, count)
                continue
            end = min(count, at + self._size - len(self._body))
            self._body += self._scratch[at:end]
            at = end
            if len(self._body) == self._size:
                frames.append(self._body)
                self._body = None
        return frames

    def _open(self, at: int, count: int) -> int:
        """Continue reading the size field; start the frame when the field is complete."""
        end = min(count, at + SIZE_BYTES - len(self._head))
        self._head += bytes(self._scratch[at:end])
        if len(self._head) == SIZE_BYTES:
            self._size = self._checked_size()
            self._body = bytearray()
        return end

    def _checked_size(self) -> int:
        size = int.from_bytes(self._head, "big", signed=True)
        if not 0 < size <= self._limit_bytes:
            raise RemoteProtocolError(
                f"a frame of {size} bytes was announced (first bytes {self._head!r}); "
                f"the limit is {self._limit_bytes} (frame_bytes_max; less before a login)"
            )
        self._head = b""
        return size
