# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""TLS over any transport: OpenSSL works on memory buffers, and the transport below does the I/O.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`. So `ssl.SSLObject`,
which is Python code, is bypassed, and an error of a peek is raised by the next read.

So OpenSSL never sees a full socket, for which it would require that a failed write is repeated with
the same bytes. The socket may reject only ciphertext, which is kept here.

Invariants.
    Bytes count as written when all of their ciphertext is written: a broker that has not received
    them completely cannot have appended them. All received ciphertext is decrypted before more is
    read, so that no data waits where the selector cannot see it. No data is sent to a peer whose
    certificate is rejected: it is verified in the handshake. An interrupt in the middle of a call
    loses and repeats no byte: `ssl` raises it after OpenSSL has returned, and what OpenSSL has done
    can be seen in its buffers.

Thread-safety: one thread at a time.
Source: CPython's ssl.SSLObject and `Modules/_ssl.c`; RFC 8446.
"""

import ssl
import sys
from typing import Any, Final

from kprod._core.signal_handlers import interrupt_later
from kprod.network.outgoing import Piece
from kprod.network.selector import EVENT_READ, EVENT_WRITE
from kprod.network.tls_errors import TlsPeer, handshake_error, session_error
from kprod.network.transport import Transport

# Each call into `ssl` releases the GIL, and gets it back from a busy thread after up to 5 ms. So
# few large calls are made.
TLS_CHUNK_BYTES: Final = 1 << 20
_RECORD_BYTES_MAX: Final = (16 << 10) + 512  # ciphertext; OpenSSL may keep the rest of a record
_BEGINNING_BYTES: Final = 16
_NO_BYTE: Final = 0xFF  # never the first byte of a frame, whose length is not negative


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
        self._session = _session_of(self._ssl)
        self._ciphertext = memoryview(b"")  # encrypted, and not accepted by the socket yet
        self._taken_bytes = 0  # plaintext bytes that `_ciphertext` contains
        self._beginning = b""
        self._is_established = False
        self._is_broken = False
        self._unread = b""  # plaintext that `peek_into` has decrypted
        # The error of the next read: one of `peek_into`, or an end behind data.
        self._failure: ssl.SSLError | None = None
        self._first = bytearray(1)
        self.gathers: bool = True
        self.reads_in_place: bool = False  # ciphertext needs an intermediate buffer
        # `_msg_callback` is for debuggers: a Python function that OpenSSL calls.
        is_native = self._session is not self._ssl
        self.peeks: bool = is_native and getattr(context, "_msg_callback", None) is None

    @property
    def description(self) -> str:
        """The version and the cipher; empty before the handshake is over."""
        cipher = self._ssl.cipher()
        return f"{self._ssl.version()} {cipher[0]}" if cipher else ""

    @property
    def has_unread(self) -> bool:
        """See `Transport.has_unread`."""
        return bool(self._unread) or self._failure is not None

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
            self._break()
            raise handshake_error(error, self._peer, self._beginning) from error
        return 0 if self._push() else EVENT_WRITE

    def write_pieces(self, pieces: list[Piece]) -> int:
        """See `Transport.write_pieces`; the caller repeats the pieces until they are accepted."""
        if not self._push():
            return 0
        if not self._taken_bytes:
            try:
                self._taken_bytes = self._encrypt(_joined(pieces))
            except ssl.SSLError:
                self._is_broken = True
                raise
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
        if self._unread:
            return self._take_unread(buffer, bytes_max)
        if self._failure is not None:
            return self._end(self._failure)
        room_bytes = min(len(buffer), bytes_max) - _RECORD_BYTES_MAX
        received = self._receive(buffer, max(room_bytes, 1))
        if not received:
            return received
        try:
            count_bytes = self._decrypt(buffer)
        except ssl.SSLError as error:
            return self._end(error)
        self._push()
        if count_bytes is None and self._failure is not None:
            return self._end(self._failure)
        return count_bytes

    def peek_into(self, buffer: bytearray) -> int | None:
        """See `Transport.peek_into`; keeps the plaintext, which cannot return to the socket."""
        if not self.has_unread:
            if not self._receive(buffer, len(buffer)):
                return None  # an end of the stream stays in the socket
            self._decrypt_unread()
            self._push()
        count_bytes = min(len(self._unread), len(buffer))
        buffer[:count_bytes] = self._unread[:count_bytes]
        return count_bytes or None

    def close(self) -> None:
        """See `Transport.close`; also ends the TLS stream, if that is possible without waiting."""
        if self._is_established and not self._is_broken and not self._ciphertext:
            try:  # noqa: SIM105 - as elsewhere in this module
                self._ssl.unwrap()
            except (OSError, ValueError):
                pass
            self._break()
        self._below.close()

    def close_after_fork(self) -> None:
        """Close this process's copy of the socket; the parent's session continues."""
        self._is_broken = True
        self._below.close()

    def _end(self, error: ssl.SSLError) -> int:
        """Return 0 for the peer's end of the stream; raise all other errors."""
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return 0
        self._break()
        raise session_error(error, self._peer) from error

    def _break(self) -> None:
        """Make the session unusable; write the alert or the notification, if that is possible."""
        self._is_broken = True
        try:  # noqa: SIM105 - `suppress` is Python code
            self._push()
        except (OSError, ValueError):
            pass

    def _encrypt(self, piece: Piece) -> int:
        """Encrypt bytes, all of them; `_outgoing` is empty."""
        try:
            return int(self._session.write(piece))
        except KeyboardInterrupt:
            try:
                # OpenSSL takes all of them or none.
                return len(piece) if self._outgoing.pending else self._encrypt(piece)
            finally:
                interrupt_later()  # not earlier, or `ssl` would raise it again

    def _take_unread(self, buffer: bytearray, bytes_max: int) -> int:
        count_bytes = min(len(self._unread), len(buffer), bytes_max)
        buffer[:count_bytes] = self._unread[:count_bytes]
        self._unread = self._unread[count_bytes:]
        return count_bytes

    def _decrypt_unread(self) -> None:
        """Decrypt all received records; an error is kept for the next read."""
        try:
            while self._incoming.pending and self._read_first():
                self._unread += bytes(self._first)
                rest_bytes = self._session.pending()
                if rest_bytes:
                    self._unread += self._read_rest(rest_bytes)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._failure = error

    def _read_first(self) -> bool:
        """Read the first byte of the next record, so that OpenSSL tells the number of the rest."""
        self._first[0] = _NO_BYTE
        try:
            has_read = bool(self._session.read(1, self._first))
            if not has_read:
                self._failure = _closed_by_peer()
        except KeyboardInterrupt:
            try:
                has_read = self._has_read_first() or self._read_first()
            finally:
                interrupt_later()
        return has_read

    def _has_read_first(self) -> bool:
        """Whether OpenSSL had read the byte when an interrupt was raised."""
        if self._first[0] != _NO_BYTE or self._session.pending():
            return True
        if self._unread:
            # This may be a byte in the middle of a frame, the only one of its record.
            raise ssl.SSLError("interrupted between two records")
        return False

    def _read_rest(self, count_bytes: int) -> bytes:
        """Read the rest of a record, which OpenSSL has decrypted."""
        rest = bytearray(count_bytes)
        try:
            self._session.read(count_bytes, rest)
        except KeyboardInterrupt:
            interrupt_later()  # OpenSSL has returned all of them
        return bytes(rest)

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
        """Decrypt one record; returns 0 for none, and keeps an end of the stream for later."""
        # A peer that has ended its TLS stream need not end the connection, so no selector tells.
        try:
            with view[at:] as target:
                count: Any = self._session.read(len(target), target)  # bytes only without a target
        except ssl.SSLWantReadError:
            return 0
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            self._failure = error
            return 0
        if not count:
            self._failure = _closed_by_peer()
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


def _closed_by_peer() -> ssl.SSLError:
    """Return the error that `ssl` leaves out where OpenSSL has seen a `close_notify`."""
    return ssl.SSLZeroReturnError("the peer has ended the TLS stream")


def _session_of(wrapped: ssl.SSLObject) -> Any:  # noqa: ANN401 - of no public type
    """Return the object whose C methods `ssl.SSLObject` calls; a subclass's is itself."""
    if type(wrapped) is ssl.SSLObject:
        return getattr(wrapped, "_sslobj", wrapped)
    return wrapped


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
