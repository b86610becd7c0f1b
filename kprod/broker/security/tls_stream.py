"""TLS over any stream of the broker.

OpenSSL works on memory buffers here and the stream below does the I/O, so this works over a socket
and over a simulated network.

Invariants.
    Bytes count as sent when all of their ciphertext is sent. All received ciphertext is decrypted
    before more is read.

Thread-safety: the broker's thread.
Source: CPython's ssl.SSLObject; RFC 8446. The client's TLS transport is a separate implementation,
    so that neither hides an error of the other.
"""

import contextlib
import ssl
from collections.abc import Sequence
from typing import Any

from kprod.broker.security.security_faults import SecurityFaults
from kprod.broker.sockets import Stream
from kprod.guarded_log import guarded_logger

_logger = guarded_logger(__name__)
_CIPHERTEXT_BYTES_MAX = 64 << 10  # per read; the buffer has space for one more record
# Kafka's response to bytes that are not TLS
_INTERNAL_ERROR = bytes.fromhex("15 03 03 00 02 02 50")
_PLAINTEXT_BYTES_MAX = 256 << 10  # encrypted at a time


class TlsStream:
    """A `Stream` that encrypts."""

    __slots__ = (
        "_below",
        "_ciphertext",
        "_cut_bytes",
        "_faults",
        "_incoming",
        "_is_established",
        "_is_over",
        "_outgoing",
        "_ssl",
        "_taken_bytes",
    )

    def __init__(
        self, below: Stream, context: ssl.SSLContext, faults: SecurityFaults | None = None
    ) -> None:
        """Start TLS on an accepted stream.

        Args:
            below: The stream that carries the ciphertext.
            context: The server's TLS context.
            faults: Injected faults; None for none.
        """
        self._faults = faults or SecurityFaults()
        self._cut_bytes = self._faults.take_cut()
        self._below = below
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._ciphertext = memoryview(b"")  # encrypted, and not accepted by the stream below yet
        self._taken_bytes = 0  # plaintext bytes of `send` that `_ciphertext` contains
        self._is_established = False
        self._is_over = False

    @property
    def peer(self) -> str:
        """The client's address."""
        return self._below.peer

    @property
    def has_output(self) -> bool:
        """Whether ciphertext waits for the stream below."""
        return bool(self._ciphertext)

    def certified_name(self) -> str | None:
        """Return the common name of the client's certificate; None if it has shown none."""
        if not self._is_established:
            return None
        certificate = self._ssl.getpeercert() or {}
        parts: Any = certificate.get("subject", ())
        names = [value for part in parts for name, value in part if name == "commonName"]
        return names[0] if names else None

    def receive_into(self, buffer: memoryview) -> int | None:
        """Implement `Stream.receive_into`; a violation of TLS counts as the stream's end."""
        if self._is_over:
            return 0
        ciphertext = buffer[:_CIPHERTEXT_BYTES_MAX]
        count = self._below.receive_into(ciphertext)
        if count is None:
            return None
        if count == 0:
            self._is_over = True
            return 0
        self._incoming.write(ciphertext[:count])
        try:
            received_bytes = self._decrypt(buffer) if self._shake_hands() else 0
        except (ssl.SSLError, OSError) as error:
            _logger.debug("TLS with %s failed: %s", self.peer, error)
            if not self._is_established and not self._outgoing.pending:
                self._ciphertext = memoryview(_INTERNAL_ERROR)
            self._is_over = True
            received_bytes = 0
        try:
            self.flush()
        except OSError:  # the client is gone; its requests before that count
            self._is_over = True
            self._ciphertext = memoryview(b"")
        return received_bytes or (0 if self._is_over else None)

    def send(self, pieces: Sequence[memoryview]) -> int:
        """Implement `Stream.send`; the caller repeats the same pieces until they are accepted."""
        if not self.flush():
            return 0
        if not self._taken_bytes:
            plaintext = _joined(pieces)
            self._taken_bytes = self._ssl.write(plaintext)
            if not self.flush():
                return 0
        taken_bytes, self._taken_bytes = self._taken_bytes, 0
        return taken_bytes

    def flush(self) -> bool:
        """Send waiting ciphertext.

        Returns:
            True if no ciphertext is left: it was sent, or dropped after the end of the TLS stream.

        Raises:
            OSError: The connection is lost, and the TLS stream has not ended.
        """
        if self._outgoing.pending:
            encrypted = self._outgoing.read()
            if self._is_established and self._faults.take_tampering():
                encrypted = encrypted[:-1] + bytes([encrypted[-1] ^ 1])
            self._ciphertext = memoryview(bytes(self._ciphertext) + encrypted)
        if self._cut_bytes is not None:  # an injected fault: the stream ends after these bytes
            self._ciphertext = self._ciphertext[: self._cut_bytes]
            self._is_over = self._is_over or len(self._ciphertext) == self._cut_bytes
        while self._ciphertext:
            try:
                count = self._below.send([self._ciphertext])
            except OSError:
                if self._is_over:
                    self._ciphertext = memoryview(b"")
                    return True
                raise
            if not count:
                return False
            self._ciphertext = self._ciphertext[count:]
            if self._cut_bytes is not None:
                self._cut_bytes -= count
        return True

    def close(self) -> None:
        """Send the end of the TLS stream, if that is possible without waiting, and close."""
        if self._is_established and not self._is_over and not self._ciphertext:
            with contextlib.suppress(OSError):
                self._ssl.unwrap()
            with contextlib.suppress(OSError):
                self.flush()
        self._below.close()

    def _shake_hands(self) -> bool:
        if not self._is_established:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                return False
            self._is_established = True
        return True

    def _decrypt(self, buffer: memoryview) -> int:
        filled_bytes = 0
        while filled_bytes < len(buffer):
            try:
                target = buffer[filled_bytes:]
                count: Any = self._ssl.read(len(target), target)  # bytes only without a target
            except ssl.SSLWantReadError:
                return filled_bytes
            except ssl.SSLZeroReturnError:
                count = 0
            if not count:
                self._is_over = True
                return filled_bytes
            filled_bytes += count
        return filled_bytes


def _joined(pieces: Sequence[memoryview]) -> bytes:
    chosen: list[memoryview] = []
    room_bytes = _PLAINTEXT_BYTES_MAX
    for piece in pieces:
        if not room_bytes:
            break
        chosen.append(piece[:room_bytes])
        room_bytes -= len(chosen[-1])
    return b"".join(chosen)
