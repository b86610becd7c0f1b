# cython: annotation_typing=False, nonecheck=True
"""Splits a byte stream into frames: a length of four bytes, then that many bytes.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

The length is not trusted. It is checked against a limit, and memory grows with the bytes that have
arrived, to at most twice their number. An impossible length usually is the beginning of another
protocol's response; the error names that protocol.

Invariant: each frame is returned exactly once, complete and in order. Nothing is read after an
    invalid length; the frames before it are valid.

Thread-safety: one thread. No I/O here.
Source: Kafka's protocol guide, "Common request and response structure"; RFC 8446 and RFC 9112 for
    the first bytes of other servers.
"""

import struct

from kprod._core.wire.frames import resize_frame, whole_frame
from kprod.errors import RemoteProtocolError

LENGTH_BYTES = 4
RESPONSE_BYTES_MAX = 100_000_000  # librdkafka's and kafka-python's default; sufficient for a fetch
RESPONSE_BYTES_MAX_UNAUTHENTICATED = 512 * 1024  # limit before the login is complete
ROOM_BYTES_MIN = 64 * 1024  # free space of an incomplete frame for the next read
RESPONSE_BYTES_MIN = 4  # size of a correlation id

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
    """Splits a stream into frames."""

    def __init__(self, *, bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        """Start at the beginning of a frame.

        Args:
            bytes_max: Maximum size of a frame; may be changed between frames.
        """
        self.bytes_max = bytes_max
        self._head = bytearray()  # the part of a length that has arrived
        self._partial: bytearray | None = None  # an incomplete frame with a known length
        # bytes of `_partial` that have arrived; the rest is space for the next read
        self.filled_bytes: int = 0
        self._wanted = 0  # bytes that `_partial` lacks
        self.error: RemoteProtocolError | None = None  # set permanently by an invalid length

    @property
    def is_at_border(self) -> bool:
        """Whether all bytes so far were complete frames."""
        return not self._head and self._partial is None

    @property
    def is_in_frame(self) -> bool:
        """Whether there is an incomplete frame with a known length."""
        return self._partial is not None

    def make_room(self) -> bytearray:
        """Enlarge the buffer of the incomplete frame, up to twice the bytes that have arrived.

        Returns:
            The buffer, to be filled from `filled_bytes` on.
        """
        partial = self._partial
        assert partial is not None  # noqa: S101 - the caller looked
        room_bytes = min(self._wanted, max(self.filled_bytes, ROOM_BYTES_MIN))
        resize_frame(partial, self.filled_bytes + room_bytes)
        return partial

    def fill(self, count_bytes: int) -> Frame | None:
        """Account for bytes that were read into the buffer of `make_room`.

        Args:
            count_bytes: Number of bytes read.

        Returns:
            The frame, if it is complete.
        """
        self.filled_bytes += count_bytes
        self._wanted -= count_bytes
        if self._wanted:
            return None
        frame, self._partial = self._partial, None
        return frame

    def whole_frame(self, buffer: bytearray, count_bytes: int) -> Frame | None:
        """Process bytes that are exactly one frame, which is the usual case.

        Args:
            buffer: The bytes that arrived, at its beginning; copied.
            count_bytes: Number of bytes.

        Returns:
            The frame without its length prefix. None if the bytes are anything else; then nothing
            was consumed.
        """
        if self.error is not None or self._partial is not None or self._head:
            return None
        return whole_frame(buffer, count_bytes, self.bytes_max)

    def feed(self, view: memoryview) -> list[Frame]:
        """Process bytes.

        Args:
            view: The bytes that arrived, any number; copied.

        Returns:
            The completed frames, without their length prefixes. Check `error` afterwards.
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
        """Add bytes to the incomplete frame."""
        partial = self._partial
        assert partial is not None  # noqa: S101 - the caller looked
        piece = view[position : position + self._wanted]
        partial[self.filled_bytes : self.filled_bytes + len(piece)] = piece
        frame = self.fill(len(piece))
        if frame is not None:
            frames.append(frame)
        return position + len(piece)

    def _gather_length(self, view: memoryview, position: int) -> int:
        """Collect a length prefix that is split between reads."""
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
        """Read a complete length prefix; usually the frame is complete, too."""
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
    """Guess the peer's protocol from its first bytes.

    Args:
        beginning: At least four bytes.

    Returns:
        A sentence for an error text.
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
    """Name a service that is not a Kafka broker.

    Args:
        beginning: The first bytes.

    Returns:
        The name with its article; empty if unknown.
    """
    if beginning.startswith(b"HTTP"):
        return "an HTTP server"
    return "an SSH server" if beginning.startswith(b"SSH-") else ""
