# cython: annotation_typing=False, nonecheck=True
"""Bytes as they come in, cut into frames: four bytes of length, then that many bytes.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

The length is a peer's word. It is checked against a limit and used for nothing but counting:
memory grows with the bytes that have really arrived, at most to twice as many. A length that cannot
be meant usually is no length at all but the beginning of another protocol's answer, and the error
says which.

Invariant: a frame is returned exactly once, complete, in order. Nothing is read behind a bad
length, but the frames before it are good.

Thread-safety: one thread. No socket here.
Source: Kafka's protocol guide, "Common request and response structure"; RFC 8446 and RFC 9112 for
what other servers say first.
"""

import struct

from kprod._core.wire.frames import resize_frame, whole_frame
from kprod.errors import RemoteProtocolError

LENGTH_BYTES = 4
RESPONSE_BYTES_MAX = 100_000_000  # librdkafka's and kafka-python's default; ample for a fetch
RESPONSE_BYTES_MAX_UNAUTHENTICATED = 512 * 1024  # of a broker that has not let us in yet
ROOM_BYTES_MIN = 64 * 1024  # of a frame under way, for the next read
RESPONSE_BYTES_MIN = 4  # a correlation id

WITHOUT_TLS = (
    "This client connects without TLS (security_protocol=PLAINTEXT): set security_protocol=SSL, or"
    " name a port of a PLAINTEXT listener in bootstrap_servers."
)

_LENGTH = struct.Struct(">i")
_SHOWN_BYTES = 16
_PRINTABLE_ASCII = range(0x20, 0x7F)
_TLS_ALERT, _TLS_HANDSHAKE, _TLS_MAJOR_VERSION = 0x15, 0x16, 0x03

Frame = bytes | bytearray


class FrameReader:
    """Cuts a stream into frames."""

    def __init__(self, *, bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        """Start at a frame's border.

        Args:
            bytes_max: The longest frame to accept; may be changed between frames.
        """
        self.bytes_max = bytes_max
        self._head = bytearray()  # of the length, when it arrived in pieces
        self._partial: bytearray | None = None  # a frame whose length is known
        self.filled_bytes: int = 0  # of `_partial`; behind them is room for the next read
        self._wanted = 0  # bytes that `_partial` still lacks
        self.error: RemoteProtocolError | None = None  # set for good by a bad length

    @property
    def is_at_border(self) -> bool:
        """Whether everything so far was whole frames."""
        return not self._head and self._partial is None

    @property
    def is_in_frame(self) -> bool:
        """Whether a frame is under way whose length is known."""
        return self._partial is not None

    def make_room(self) -> bytearray:
        """Make room for more of the frame under way, as much again as has arrived.

        Returns:
            The frame, to be filled from `filled_bytes` on, at most to its end.
        """
        partial = self._partial
        assert partial is not None  # noqa: S101 - the caller looked
        room_bytes = min(self._wanted, max(self.filled_bytes, ROOM_BYTES_MIN))
        resize_frame(partial, self.filled_bytes + room_bytes)
        return partial

    def fill(self, count_bytes: int) -> Frame | None:
        """Take in bytes that are in the frame under way already.

        Args:
            count_bytes: How many were read to where `make_room` said.

        Returns:
            The frame, if it is complete now.
        """
        self.filled_bytes += count_bytes
        self._wanted -= count_bytes
        if self._wanted:
            return None
        frame, self._partial = self._partial, None
        return frame

    def whole_frame(self, buffer: bytearray, count_bytes: int) -> Frame | None:
        """Take in bytes that are one frame and nothing else: most often they are.

        Args:
            buffer: Begins with the bytes that arrived; copied.
            count_bytes: How many bytes have.

        Returns:
            The frame without its length. None for anything else, and then nothing is taken in.
        """
        if self.error is not None or self._partial is not None or self._head:
            return None
        return whole_frame(buffer, count_bytes, self.bytes_max)

    def feed(self, view: memoryview) -> list[Frame]:
        """Take in bytes.

        Args:
            view: The bytes that arrived, of any length; copied.

        Returns:
            The frames that are now complete, without their lengths. Look at `error` afterwards.
        """
        frames: list[Frame] = []
        position = 0
        while position < len(view) and self.error is None:
            if self._partial is not None:
                position = self._fill(view, position, frames)
            elif self._head or len(view) - position < LENGTH_BYTES:
                position = self._gather_length(view, position)
            else:
                position = self._begin(view, position, frames)
        return frames

    def _fill(self, view: memoryview, position: int, frames: list[Frame]) -> int:
        """Add to the frame under way."""
        partial = self._partial
        assert partial is not None  # noqa: S101 - the caller looked
        piece = view[position : position + self._wanted]
        partial[self.filled_bytes : self.filled_bytes + len(piece)] = piece
        frame = self.fill(len(piece))
        if frame is not None:
            frames.append(frame)
        return position + len(piece)

    def _gather_length(self, view: memoryview, position: int) -> int:
        """Collect a length that is cut by the end of a read."""
        piece = view[position : position + LENGTH_BYTES - len(self._head)]
        self._head += piece
        if len(self._head) == LENGTH_BYTES:
            length: int = _LENGTH.unpack(self._head)[0]
            if self._fits(length):
                self._partial, self.filled_bytes, self._wanted = bytearray(), 0, length
            else:
                self._reject(length, bytes(self._head))
            self._head.clear()
        return position + len(piece)

    def _begin(self, view: memoryview, position: int, frames: list[Frame]) -> int:
        """Read a length that is whole; most often the frame behind it is too."""
        start = position + LENGTH_BYTES
        length: int = _LENGTH.unpack_from(view, position)[0]
        if not self._fits(length):
            self._reject(length, bytes(view[position : start + _SHOWN_BYTES]))
            return start
        end = start + length
        if end <= len(view):
            frames.append(bytes(view[start:end]))
            return end
        self._partial = bytearray(view[start:])
        self.filled_bytes = len(self._partial)
        self._wanted = end - len(view)
        return len(view)

    def _fits(self, length: int) -> bool:
        return RESPONSE_BYTES_MIN <= length <= self.bytes_max

    def _reject(self, length: int, beginning: bytes) -> None:
        self.error = RemoteProtocolError(
            f"the peer announced a frame of {length} bytes; kprod accepts {RESPONSE_BYTES_MIN}"
            f" to {self.bytes_max}. {guess_protocol(beginning)}"
        )


def guess_protocol(beginning: bytes) -> str:
    """Say what speaks at the other end, judging by its first bytes.

    Args:
        beginning: At least four bytes.

    Returns:
        A sentence for an error's text.
    """
    service = guess_service(beginning)
    if service:
        return f"It looks like {service}; check the port in bootstrap_servers."
    if beginning[0] in {_TLS_ALERT, _TLS_HANDSHAKE} and beginning[1] == _TLS_MAJOR_VERSION:
        return "It looks like a TLS server. " + WITHOUT_TLS
    shown = beginning[:_SHOWN_BYTES]
    if all(byte in _PRINTABLE_ASCII for byte in beginning[:LENGTH_BYTES]):
        return f"It does not look like a Kafka broker; it began with {shown!r}."
    return f"It began with the bytes {shown.hex(' ')}."


def guess_service(beginning: bytes) -> str:
    """Name a service that is no broker.

    Args:
        beginning: Its first bytes.

    Returns:
        With its article; empty if it is not known.
    """
    if beginning.startswith(b"HTTP"):
        return "an HTTP server"
    return "an SSH server" if beginning.startswith(b"SSH-") else ""
