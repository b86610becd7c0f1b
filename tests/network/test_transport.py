"""The plain TCP transport, on loopback."""

import errno
import select
import socket
from collections.abc import Callable, Iterator

import pytest

from kprod.network.address_cursor import SocketAddress
from kprod.network.transport import PlainTransport, connect_plain


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def address_of(listener: socket.socket) -> SocketAddress:
    """The address of the listener."""
    return SocketAddress(socket.AF_INET, *listener.getsockname())


def test_connect_write_read_close(listener: socket.socket) -> None:
    """The whole life of a connection; nothing blocks."""
    transport = connect_plain(
        address_of(listener), send_buffer_bytes=8_192, receive_buffer_bytes=8_192
    )
    far, _ = listener.accept()
    with far:
        far.settimeout(30)
        select.select([], [transport], [], 30)
        transport.finish_connect()
        buffer = bytearray(100)
        assert transport.read_into(buffer) is None

        assert transport.write_pieces([b"ab", memoryview(b"cd")]) == 4
        assert transport.write(b"e") == 1
        received = b""
        while len(received) < 5:
            received += far.recv(5)
        assert received == b"abcde"

        far.sendall(b"answer")
        select.select([transport], [], [], 30)
        assert transport.read_into(buffer) == 6
        far.close()
        select.select([transport], [], [], 30)
        assert transport.read_into(buffer) == 0
    transport.close()
    transport.close()
    assert transport.fileno() == -1


def test_a_full_socket_takes_nothing(listener: socket.socket) -> None:
    """The peer does not read: writes come to an end, without an error."""
    transport = connect_plain(address_of(listener), send_buffer_bytes=8_192)
    far, _ = listener.accept()
    with far:
        select.select([], [transport], [], 30)
        for _ in range(10_000):
            if transport.write_pieces([bytes(65_536)]) == 0:
                break
        assert transport.write_pieces([b"x"]) == 0
        assert transport.write(b"x") == 0
    transport.close()


def finish(address: SocketAddress) -> None:
    """Connect and wait for the end of it."""
    transport = connect_plain(address)
    try:
        select.select([], [transport], [], 30)
        transport.finish_connect()
    finally:
        transport.close()


def test_a_refused_connection_fails(listener: socket.socket) -> None:
    """At once or when it is finished; the system's reason is kept."""
    address = address_of(listener)
    listener.close()
    with pytest.raises(OSError, match="refused") as raised:
        finish(address)

    assert raised.value.errno == errno.ECONNREFUSED


def test_an_impossible_address_leaves_no_socket() -> None:
    """A broadcast address fails at once; with warnings as errors, a forgotten socket would show."""
    with pytest.raises(OSError, match=r"."):
        connect_plain(SocketAddress(socket.AF_INET, "255.255.255.255", 1))


def test_a_socket_that_met_itself_is_rejected() -> None:
    """On loopback a connect to a closed port may end at its own socket."""
    selfish = socket.socket()
    selfish.bind(("127.0.0.1", 0))
    selfish.connect(selfish.getsockname())
    transport = PlainTransport(selfish)

    with pytest.raises(OSError, match="met itself"):
        transport.finish_connect()
    transport.close()


def test_a_transport_without_init_has_no_descriptor() -> None:
    """Every call raises an error; 0 would be the standard input of the process."""
    transport = PlainTransport.__new__(PlainTransport)
    calls: list[Callable[[], object]] = [
        lambda: transport.write(b"x"),
        lambda: transport.write_pieces([b"x"]),
        lambda: transport.read_into(bytearray(1)),
        lambda: transport.peek_into(bytearray(1)),
    ]

    assert transport.fileno() == -1
    for call in calls:
        with pytest.raises(OSError, match="Bad file descriptor") as raised:
            call()
        assert raised.value.errno == errno.EBADF
