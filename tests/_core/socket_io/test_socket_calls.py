"""Writes from several places and reads, on a pair of connected sockets."""

import select
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kprod._core.socket_io.socket_calls import PIECES_MAX, read_into, write_pieces

if TYPE_CHECKING:
    from kprod.network.outgoing import Piece


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection; the first never blocks."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.settimeout(30)
        yield near, far


def read_all(far: socket.socket, count_bytes: int) -> bytes:
    """Return that number of bytes."""
    received = bytearray()
    while len(received) < count_bytes:
        received += far.recv(count_bytes - len(received))
    return bytes(received)


def test_pieces_go_out_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    """Pieces of any kind that holds bytes, empty ones too."""
    near, far = pair
    pieces: list[Piece] = [
        *(b"ab", bytearray(b"cd")),
        *(b"", memoryview(b"xefx")[1:3]),
    ]

    assert write_pieces(near.fileno(), pieces) == 6
    assert read_all(far, 6) == b"abcdef"


def test_nothing_is_written_of_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    """No pieces, no bytes."""
    assert write_pieces(pair[0].fileno(), []) == 0


def test_no_more_pieces_than_one_write_takes(pair: tuple[socket.socket, socket.socket]) -> None:
    """The rest is for the next write."""
    near, far = pair
    numbers = [b"%04d" % number for number in range(PIECES_MAX + 5)]

    assert write_pieces(near.fileno(), [*numbers]) == PIECES_MAX * 4
    assert read_all(far, PIECES_MAX * 4) == b"".join(numbers[:PIECES_MAX])


def test_a_full_socket_takes_a_part_and_then_nothing(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The reported number of bytes arrives."""
    near, far = pair
    block = bytes(range(256)) * 16_384
    taken = write_pieces(near.fileno(), [block, block])

    assert 0 < taken < 2 * len(block)
    assert write_pieces(near.fileno(), [b"more"]) == 0
    assert read_all(far, taken) == (block + block)[:taken]


def test_a_lost_connection_is_an_error_and_no_signal(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The process is not ended by SIGPIPE, which pytest does not catch."""
    near, far = pair
    far.close()

    with pytest.raises(BrokenPipeError):
        write_pieces(near.fileno(), [b"late"])
    with pytest.raises(OSError, match="Bad file descriptor"):
        write_pieces(-1, [b"nowhere"])


def test_pieces_are_let_go_of(pair: tuple[socket.socket, socket.socket]) -> None:
    """After a write, and after one that is rejected in the middle, they may change their size."""
    near, _ = pair
    piece = bytearray(b"piece")
    write_pieces(near.fileno(), [piece])
    gaps = memoryview(b"abcd")[::2]

    with pytest.raises(BufferError):
        write_pieces(near.fileno(), [piece, gaps])

    piece += b"s"  # a BufferError while somebody looks at it
    assert piece == b"pieces"


def test_arrived_bytes_are_read(pair: tuple[socket.socket, socket.socket]) -> None:
    """As much as there is room for; then nothing, and in the end the peer's close."""
    near, far = pair
    buffer = bytearray(4)

    assert read_into(near.fileno(), buffer) is None
    far.sendall(b"answer")
    assert read_into(near.fileno(), buffer) == 4
    assert buffer == b"answ"
    assert read_into(near.fileno(), buffer) == 2
    assert buffer[:2] == b"er"
    far.close()
    assert read_into(near.fileno(), buffer) == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        read_into(-1, buffer)


def test_a_read_continues_a_large_buffer(pair: tuple[socket.socket, socket.socket]) -> None:
    """Such a read releases the GIL: all bytes arrive in place, and the buffer is free again."""
    near, far = pair
    block = bytes(range(251)) * 1_000
    buffer = bytearray(b"begun") + bytearray(len(block))
    assert read_into(near.fileno(), buffer, start=5) is None

    writer = threading.Thread(target=far.sendall, args=(block,))
    writer.start()
    filled = 5
    while filled < len(buffer):
        select.select([near], [], [], 30)
        filled += read_into(near.fileno(), buffer, 100_000, filled) or 0
    writer.join()

    assert buffer == b"begun" + block
    buffer.clear()
    with pytest.raises(ValueError, match="start=5 in 0 bytes"):
        read_into(near.fileno(), buffer, start=5)


def test_a_failed_read_frees_the_large_buffer() -> None:
    """The buffer can be resized after the error."""
    buffer = bytearray(100_000)
    with socket.socket() as unconnected, pytest.raises(OSError, match="not connected"):
        read_into(unconnected.fileno(), buffer, start=1)
    buffer.clear()
