"""TLS over any transport: OpenSSL works on memory buffers, and the transport below does the I/O.

So OpenSSL never sees a full socket, for which it would require that a failed write is repeated with
the same bytes. The socket may reject only ciphertext, which is kept here.

Invariants.
    Bytes count as written when all of their ciphertext is written: a broker that has not received
    them completely cannot have appended them. All received ciphertext is decrypted before more is
    read, so that no data waits where the selector cannot see it. No data is sent to a peer whose
    certificate is rejected: it is verified in the handshake.

Thread-safety: one thread. Not on the direct path: ssl.SSLObject is Python code.
Source: CPython's ssl.SSLObject; RFC 8446.
"""

import contextlib
import ssl
import sys
from typing import Any

from kprod.network.outgoing import Piece
from kprod.network.selector import EVENT_READ, EVENT_WRITE
from kprod.network.tls_errors import TlsPeer, handshake_error, session_error
from kprod.network.transport import Transport

# Each call into `ssl` releases the GIL, and gets it back from a busy thread after up to 5 ms. So
# few large calls are made.
TLS_CHUNK_BYTES = 1 << 20
_RECORD_BYTES_MAX = (16 << 10) + 512  # ciphertext; OpenSSL may keep the rest of a record
_BEGINNING_BYTES = 16


class TlsTransport:
    """A `Transport` that encrypts."""

    def __init__(self, below: Transport, context: ssl.SSLContext, peer: TlsPeer) -> None:
        """Use a transport.

        Args:
            below: A connecting transport for the ciphertext.
            context: The TLS context.
            peer: The identity that the peer must prove.
        """
        self._below = below
        self._peer = peer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # A trailing dot in a name is for resolvers only; certificates do not have it.
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=peer.host.removesuffix(".")
        )
        self._ciphertext = memoryview(b"")  # encrypted, and not accepted by the socket yet
        self._taken_bytes = 0  # plaintext bytes that `_ciphertext` contains
        self._beginning = b""
        self._is_established = False
        self._is_broken = False
        self.gathers = True
        self.reads_in_place = False  # ciphertext needs an intermediate buffer

    @property
    def description(self) -> str:
        """The version and the cipher; empty before the handshake is over."""
        cipher = self._ssl.cipher()
        return f"{self._ssl.version()} {cipher[0]}" if cipher else ""

    def fileno(self) -> int:
        """See `Transport.fileno`."""
        return self._below.fileno()

    def finish_connect(self) -> None:
        """See `Transport.finish_connect`; the handshake comes after it."""
        self._below.finish_connect()

    def shake_hands(self, buffer: bytearray) -> int:
        """Continue the handshake.

        Args:
            buffer: Scratch.

        Returns:
            The events to wait for; 0 when the handshake is over.

        Raises:
            ConnectionFailed: The handshake failed.
            OSError: The connection is gone.
        """  # noqa: DOC501 - `handshake_error` makes it
        is_over = self._receive(buffer, sys.maxsize) == 0
        if is_over:
            self._incoming.write_eof()
        try:
            self._ssl.do_handshake()
            self._is_established = True
        except ssl.SSLWantReadError:
            return EVENT_READ if self._push() else EVENT_READ | EVENT_WRITE
        except ssl.SSLError as error:
            self._is_broken = True
            with contextlib.suppress(OSError):
                self._push()  # the alert
            raise handshake_error(error, self._peer, self._beginning) from error
        return 0 if self._push() else EVENT_WRITE

    def write_pieces(self, pieces: list[Piece]) -> int:
        """See `Transport.write_pieces`; the caller repeats the pieces until they are accepted."""
        if not self._push():
            return 0
        if not self._taken_bytes:
            try:
                self._taken_bytes = self._ssl.write(_joined(pieces))
            except ssl.SSLError as error:
                self._is_broken = True
                raise session_error(error, self._peer) from error
            if not self._push():
                return 0
        taken_bytes, self._taken_bytes = self._taken_bytes, 0
        return taken_bytes

    def write(self, piece: Piece) -> int:
        """See `Transport.write`."""
        return self.write_pieces([piece])

    def read_into(
        self,
        buffer: bytearray,
        bytes_max: int = sys.maxsize,
        start: int = 0,  # noqa: ARG002 - a Transport's
    ) -> int | None:
        """See `Transport.read_into`; a truncated stream counts as ended."""
        room_bytes = min(len(buffer), bytes_max) - _RECORD_BYTES_MAX
        received = self._receive(buffer, max(room_bytes, 1))
        if received is None:
            return None
        if received == 0:
            return 0
        try:
            count_bytes = self._decrypt(buffer)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return 0
        except ssl.SSLError as error:
            self._is_broken = True
            with contextlib.suppress(OSError):
                self._push()
            raise session_error(error, self._peer) from error
        self._push()
        return count_bytes

    def peek_into(self, buffer: bytearray) -> int | None:  # noqa: ARG002 - a Transport's
        """See `Transport.peek_into`; not possible, since the received bytes are ciphertext."""
        return None

    def close(self) -> None:
        """See `Transport.close`; also ends the TLS stream, if that is possible without waiting."""
        if self._is_established and not self._is_broken and not self._ciphertext:
            self._is_broken = True
            with contextlib.suppress(OSError, ValueError):
                self._ssl.unwrap()
            with contextlib.suppress(OSError, ValueError):
                self._push()
        self._below.close()

    def close_after_fork(self) -> None:
        """Close this process's copy of the socket; the parent's session continues."""
        self._is_broken = True
        self._below.close()

    def _receive(self, buffer: bytearray, bytes_max: int) -> int | None:
        received = self._below.read_into(buffer, min(bytes_max, len(buffer)))
        if received:
            with memoryview(buffer) as view, view[:received] as arrived:
                if len(self._beginning) < _BEGINNING_BYTES:
                    self._beginning += bytes(arrived[:_BEGINNING_BYTES])
                self._incoming.write(arrived)
        return received

    def _decrypt(self, buffer: bytearray) -> int | None:
        filled_bytes = 0
        with memoryview(buffer) as view:
            while filled_bytes < len(view):
                count = self._read_record(view, filled_bytes)
                if not count:
                    break
                filled_bytes += count
        return filled_bytes or None

    def _read_record(self, view: memoryview, at: int) -> int:
        """Decrypt one record; returns 0 for none, or if the end of the stream follows data."""
        try:
            with view[at:] as target:
                count: Any = self._ssl.read(len(target), target)  # bytes only without a target
        except ssl.SSLWantReadError:
            return 0
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            if at:
                return 0
            raise
        return int(count)

    def _push(self) -> bool:
        """Write ciphertext; returns whether all of it was written."""
        if self._outgoing.pending:
            fresh = self._outgoing.read()
            kept = self._ciphertext
            self._ciphertext = memoryview(bytes(kept) + fresh if kept else fresh)
        while self._ciphertext:
            count_bytes = self._below.write(self._ciphertext)
            if not count_bytes:
                return False
            self._ciphertext = self._ciphertext[count_bytes:]
        return True


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1 and len(pieces[0]) <= TLS_CHUNK_BYTES:
        return pieces[0]
    chosen: list[memoryview] = []
    room_bytes = TLS_CHUNK_BYTES
    for piece in pieces:
        if not room_bytes:
            break
        chosen.append(memoryview(piece)[:room_bytes])
        room_bytes -= len(chosen[-1])
    return b"".join(chosen)
