# cython: annotation_typing=False, nonecheck=True
"""The socket behind a connection: the interface that a channel uses, and plain TCP.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A transport never blocks. It says which events it waits for, so that TLS, which may have to read in
order to write, has the same interface.

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

from kprod._core.socket_io.socket_calls import peek_into as peek_once
from kprod._core.socket_io.socket_calls import read_into as read_once
from kprod._core.socket_io.socket_calls import write_pieces as write_once
from kprod.network.address_cursor import SocketAddress
from kprod.network.outgoing import Piece

_IN_PROGRESS = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY})


class Transport(Protocol):
    """A byte stream that never blocks."""

    gathers: bool
    """Whether `write_pieces` is supported; if not, pieces are joined for `write`."""

    reads_in_place: bool
    """Whether `read_into` can write after the start of a buffer."""

    peeks: bool
    """Whether `peek_into` is supported, and no method runs Python code (`COMPILED_MODULES`)."""

    @property
    def has_unread(self) -> bool:
        """Whether `peek_into` has received input that a selector cannot see any more."""

    def fileno(self) -> int:
        """Return the descriptor for a selector."""

    def finish_connect(self) -> None:
        """Complete the connection after the socket has become writable.

        Raises:
            OSError: The connection failed.
        """

    def write_pieces(self, pieces: list[Piece]) -> int:
        """Write several buffers at once.

        Args:
            pieces: At most IOV_MAX buffers, in order.

        Returns:
            Number of bytes accepted; 0 if the socket is full.

        Raises:
            OSError: The connection is lost.
        """

    def write(self, piece: Piece) -> int:
        """Write one buffer; otherwise like `write_pieces`.

        Args:
            piece: At least one byte.
        """

    def read_into(
        self, buffer: bytearray, bytes_max: int = sys.maxsize, start: int = 0
    ) -> int | None:
        """Read once.

        Args:
            buffer: The buffer, which is filled from `start` on.
            bytes_max: Maximum number of bytes, at least 1.
            start: Position in the buffer; 0 if the transport does not read in place.

        Returns:
            Number of bytes; 0 if the peer has closed; None if none have arrived.

        Raises:
            OSError: The connection is lost.
        """

    def peek_into(self, buffer: bytearray) -> int | None:
        """Like `read_into`, without consuming the bytes.

        Args:
            buffer: As for `read_into`.

        Returns:
            Number of bytes; None if none have arrived, or `has_unread` says more.
        """

    def close(self) -> None:
        """Close; idempotent."""


Connect = Callable[[SocketAddress], Transport]
"""Starts a connection without waiting; raises OSError if it fails immediately."""


class PlainTransport:
    """TCP without encryption."""

    def __cinit__(self) -> None:  # noqa: PLW3201 - Cython calls it before any `__init__`
        self._descriptor = -1  # without `__init__` the field would be 0, which is a descriptor

    def __init__(self, connected: socket.socket) -> None:
        """Use a socket.

        Args:
            connected: A non-blocking socket, connected or connecting.
        """
        self._socket = connected
        self._descriptor = connected.fileno()  # −1 once it is closed
        self.gathers: bool = hasattr(connected, "sendmsg")
        self.reads_in_place: bool = True
        self.peeks: bool = True
        self.has_unread: bool = False  # the socket keeps what `peek_into` shows

    def fileno(self) -> int:
        """See `Transport.fileno`."""
        return self._descriptor

    def finish_connect(self) -> None:
        """See `Transport.finish_connect`."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        if self._socket.getpeername() == self._socket.getsockname():
            # On loopback, a connect to a closed ephemeral port can connect a socket to itself.
            raise OSError(errno.ECONNREFUSED, "no one listens there (the socket met itself)")

    def write_pieces(self, pieces: list[Piece]) -> int:
        """See `Transport.write_pieces`."""
        return write_once(self._descriptor, pieces)

    def write(self, piece: Piece) -> int:
        """See `Transport.write`."""
        return write_once(self._descriptor, [piece])

    def read_into(
        self, buffer: bytearray, bytes_max: int = sys.maxsize, start: int = 0
    ) -> int | None:
        """See `Transport.read_into`."""
        return read_once(self._descriptor, buffer, bytes_max, start)

    def peek_into(self, buffer: bytearray) -> int | None:
        """See `Transport.peek_into`."""
        return peek_once(self._descriptor, buffer)

    def close(self) -> None:
        """See `Transport.close`."""
        self._descriptor = -1
        self._socket.close()


def connect_plain(
    address: SocketAddress, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
) -> PlainTransport:
    """Start a TCP connection.

    Args:
        address: The address to connect to.
        send_buffer_bytes: Size of the send buffer; −1 for the system's default.
        receive_buffer_bytes: Size of the receive buffer; −1 for the system's default.

    Returns:
        The transport, connecting.

    Raises:
        OSError: It failed immediately.
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
