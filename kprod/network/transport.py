# cython: annotation_typing=False, nonecheck=True
"""The socket behind a connection: what a channel needs of it, and the plain TCP one.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A transport never blocks. It says which events it waits for, so that one that must read in order to
write (TLS) fits behind the same border.

Thread-safety: one thread.
Source: connect(2) for the completion of a non-blocking connect; KAFKA-9203 class of self-connects
on loopback, RFC 9293 3.5 for how they come about.
"""

import errno
import os
import socket
import sys
from collections.abc import Callable
from typing import Protocol

from kprod._core.socket_io import socket_calls as nonblocking
from kprod.network.address_cursor import SocketAddress
from kprod.network.outgoing import Piece

_IN_PROGRESS = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY})


class Transport(Protocol):
    """A byte stream that never blocks."""

    gathers: bool
    """Whether `write_pieces` exists in the system; if not, pieces are joined before `write`."""

    reads_in_place: bool
    """Whether `read_into` can begin behind the start of a buffer."""

    def fileno(self) -> int:
        """What a selector watches."""

    def finish_connect(self) -> None:
        """Complete the connection once it became writable.

        Raises:
            OSError: It failed.
        """

    def write_pieces(self, pieces: list[Piece]) -> int:
        """Write from several places at once.

        Args:
            pieces: At most IOV_MAX, in order.

        Returns:
            Bytes taken; 0 when the socket is full.

        Raises:
            OSError: The connection is gone.
        """

    def write(self, piece: Piece) -> int:
        """Write from one place; otherwise as `write_pieces`.

        Args:
            piece: At least one byte.
        """

    def read_into(
        self, buffer: bytearray, bytes_max: int = sys.maxsize, start: int = 0
    ) -> int | None:
        """Read once.

        Args:
            buffer: Filled from `start` on.
            bytes_max: Further bytes are left unread; at least 1.
            start: 0 where the transport does not read in place.

        Returns:
            Bytes read; 0 when the peer has closed; None when nothing has arrived.

        Raises:
            OSError: The connection is gone.
        """

    def peek_into(self, buffer: bytearray) -> int | None:
        """As `read_into`, and leave everything unread; None too if that cannot be done."""

    def close(self) -> None:
        """Close; nothing happens the second time."""


Connect = Callable[[SocketAddress], Transport]
"""Begins a connection and returns at once; raises OSError when it can be seen to fail already."""


class PlainTransport:
    """TCP without encryption."""

    def __init__(self, connected: socket.socket) -> None:
        """Take over a socket.

        Args:
            connected: Non-blocking; connected or connecting.
        """
        self._socket = connected
        self.gathers: bool = hasattr(connected, "sendmsg")
        self.reads_in_place: bool = True

    def fileno(self) -> int:
        """See `Transport.fileno`."""
        return self._socket.fileno()

    def finish_connect(self) -> None:
        """See `Transport.finish_connect`."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        if self._socket.getpeername() == self._socket.getsockname():
            # A closed port in the ephemeral range of this machine can be met by our own socket.
            raise OSError(errno.ECONNREFUSED, "no one listens there (the socket met itself)")

    def write_pieces(self, pieces: list[Piece]) -> int:
        """See `Transport.write_pieces`."""
        return nonblocking.write_pieces(self._socket.fileno(), pieces)

    def write(self, piece: Piece) -> int:
        """See `Transport.write`."""
        try:
            return self._socket.send(piece)
        except BlockingIOError:
            return 0

    def read_into(
        self, buffer: bytearray, bytes_max: int = sys.maxsize, start: int = 0
    ) -> int | None:
        """See `Transport.read_into`."""
        return nonblocking.read_into(self._socket.fileno(), buffer, bytes_max, start)

    def peek_into(self, buffer: bytearray) -> int | None:
        """See `Transport.peek_into`."""
        return nonblocking.peek_into(self._socket.fileno(), buffer)

    def close(self) -> None:
        """See `Transport.close`."""
        self._socket.close()


def connect_plain(
    address: SocketAddress, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
) -> PlainTransport:
    """Start a TCP connection.

    Args:
        address: Where to.
        send_buffer_bytes: The socket's buffer; −1 leaves it to the system.
        receive_buffer_bytes: The same for reading.

    Returns:
        The transport, connecting.

    Raises:
        OSError: It failed at once.
    """
    connecting = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        _set_options(connecting, send_buffer_bytes, receive_buffer_bytes)
        _begin_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return PlainTransport(connecting)


def _set_options(connecting: socket.socket, send_bytes: int, receive_bytes: int) -> None:
    connecting.setblocking(False)  # noqa: FBT003 - the standard library's signature
    connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if send_bytes >= 0:
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if receive_bytes >= 0:
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)


def _begin_connect(connecting: socket.socket, address: SocketAddress) -> None:
    code = connecting.connect_ex((address.host, address.port))
    if code not in _IN_PROGRESS:
        raise OSError(code, os.strerror(code))
