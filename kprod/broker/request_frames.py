"""Length-prefixed frames out of a byte stream: bytes in, whole requests out.

The length field is never believed: bytes are received into a scratch buffer that all connections
share, and a frame's own memory grows by the bytes that arrived. An unfinished frame takes an eighth
more than its bytes at most, which is how far a bytearray grows ahead of its contents, and nothing
is written there before it is needed. The second copy of a large frame costs less than zeroing its
memory did.

Thread-safety: none; one connection's owner calls it.
Source: Kafka protocol guide (a frame is an int32 size and that many bytes).
"""

from kprod.errors import RemoteProtocolError

SIZE_BYTES = 4
SCRATCH_BYTES = 256 * 1024


class FrameReader:
    """Collects one connection's bytes into frames.

    Use `target` to receive into, then `received` with the count.
    """

    __slots__ = ("_body", "_frame_bytes_max", "_head", "_limit_bytes", "_scratch", "_size")

    def __init__(self, frame_bytes_max: int, scratch: memoryview) -> None:
        """Start at a frame's border.

        Args:
            frame_bytes_max: Largest frame, in bytes, without its size field.
            scratch: Shared by every reader of one thread; its contents live until `received`.
        """
        self._frame_bytes_max = frame_bytes_max
        self._limit_bytes = frame_bytes_max
        self._scratch = scratch
        self._head = b""
        self._body: bytearray | None = None
        self._size = 0

    @property
    def is_idle(self) -> bool:
        """Nothing of an unfinished frame is held."""
        return self._body is None and not self._head

    @property
    def held_bytes(self) -> int:
        """Bytes of an unfinished frame."""
        return 0 if self._body is None else len(self._body)

    def limit(self, frame_bytes_max: int) -> None:
        """Take only smaller frames, until `lift`."""
        self._limit_bytes = min(self._frame_bytes_max, frame_bytes_max)

    def lift(self) -> None:
        """Take frames of any length again, from the next one on."""
        self._limit_bytes = self._frame_bytes_max

    def target(self) -> memoryview:
        """Where the next bytes go; release it before `received`."""
        return self._scratch[:]

    def received(self, count: int) -> list[bytearray]:
        """Take note of bytes that were put into `target`.

        Args:
            count: Bytes, at least 1.

        Returns:
            The frames that are whole now, without their size fields.

        Raises:
            RemoteProtocolError: A size is negative, zero or above the cap.
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
        """Read on in the size field; begin the frame when it is whole."""
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
