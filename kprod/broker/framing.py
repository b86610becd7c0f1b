"""Length-prefixed frames out of a byte stream: bytes in, whole requests out.

The length field is never believed before its bytes are there: a frame's memory is at most sixteen
times what has arrived, and the part not yet filled is untouched zero pages, so a hostile length
costs its sender as much as it costs us. Small frames are cut from a scratch buffer that all
connections share; a large one is received straight into its own memory. One of 1 MB is allocated
once if its first 64 KiB come together.

Thread-safety: none; one connection's owner calls it.
Source: Kafka protocol guide (a frame is an int32 size and that many bytes).
"""

from kprod.errors import RemoteProtocolError

SIZE_BYTES = 4
SCRATCH_BYTES = 64 * 1024
_GROWTH = 16


class FrameReader:
    """Collects one connection's bytes into frames.

    Use `target` to receive into, then `received` with the count.
    """

    __slots__ = ("_body", "_filled", "_frame_bytes_max", "_head", "_scratch", "_size")

    def __init__(self, frame_bytes_max: int, scratch: memoryview) -> None:
        """Start at a frame's border.

        Args:
            frame_bytes_max: Largest frame, in bytes, without its size field.
            scratch: Shared by every reader of one thread; its contents live until `received`.
        """
        self._frame_bytes_max = frame_bytes_max
        self._scratch = scratch
        self._head = b""
        self._body: bytearray | None = None
        self._size = 0
        self._filled = 0

    @property
    def is_idle(self) -> bool:
        """Nothing of an unfinished frame is held."""
        return self._body is None and not self._head

    def target(self) -> memoryview:
        """Where the next bytes go; release it before `received`."""
        if self._body is None:
            return self._scratch[:]
        return memoryview(self._body)[self._filled :]

    def received(self, count: int) -> list[bytearray]:
        """Take note of bytes that were put into `target`.

        Args:
            count: Bytes, at least 1.

        Returns:
            The frames that are whole now, without their size fields.

        Raises:
            RemoteProtocolError: A size is negative, zero or above the cap.
        """
        if self._body is None:
            return self._cut(count)
        self._filled += count
        if self._filled == self._size:
            return [self._take_body()]
        if self._filled == len(self._body):
            # Made anew, since growing in place would write zeros that are overwritten at once.
            grown = bytearray(min(self._size, self._filled * _GROWTH))
            grown[: self._filled] = self._body
            self._body = grown
        return []

    def _take_body(self) -> bytearray:
        body = self._body
        if body is None:
            return bytearray()
        self._body = None
        return body

    def _cut(self, count: int) -> list[bytearray]:
        frames: list[bytearray] = []
        at = 0
        while at < count:
            at = self._read_size(at, count)
            if len(self._head) < SIZE_BYTES:
                break
            size = self._checked_size()
            if count - at < size:
                self._open(size, self._scratch[at:count])
                break
            frames.append(bytearray(self._scratch[at : at + size]))
            at += size
        return frames

    def _read_size(self, at: int, count: int) -> int:
        end = min(count, at + SIZE_BYTES - len(self._head))
        self._head += bytes(self._scratch[at:end])
        return end

    def _checked_size(self) -> int:
        size = int.from_bytes(self._head, "big", signed=True)
        if not 0 < size <= self._frame_bytes_max:
            message = (
                f"a frame of {size} bytes was announced (first bytes {self._head!r}); "
                f"the limit is {self._frame_bytes_max} (frame_bytes_max)"
            )
            raise RemoteProtocolError(message)
        self._head = b""
        return size

    def _open(self, size: int, arrived: memoryview) -> None:
        filled = len(arrived)
        self._size = size
        self._filled = filled
        self._body = bytearray(min(size, max(filled * _GROWTH, 1_024)))
        self._body[:filled] = arrived
