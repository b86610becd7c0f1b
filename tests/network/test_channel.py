"""Frames out, frames in."""

import socket
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprod.errors import Disconnected
from kprod.network.address_cursor import SocketAddress
from kprod.network.channel import JOIN_BYTES_MAX, READ_ON_BYTES_MAX, Channel
from kprod.network.framing import FrameReader
from kprod.network.outgoing import OutgoingFrame
from kprod.network.transport import PlainTransport
from tests.network.scripted import MemoryTransport


def make(*, gathers: bool = True) -> tuple[Channel, MemoryTransport]:
    """A channel over memory."""
    transport = MemoryTransport(SocketAddress(2, "10.0.0.1", 1), gathers=gathers)
    return Channel(transport, FrameReader()), transport


@pytest.mark.parametrize("gathers", [True, False])
@given(
    frames=st.lists(
        st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=6), max_size=4
    ),
    room=st.lists(st.integers(1, 15), min_size=1, max_size=10),
)
def test_partial_writes_lose_nothing(
    gathers: bool, frames: list[list[bytes]], room: list[int]
) -> None:
    """Whatever the socket takes at a time, gathered or joined, the bytes are the same."""
    channel, transport = make(gathers=gathers)
    outgoing = [OutgoingFrame([*pieces]) for pieces in frames]
    transport.room_bytes = room[-1]
    for frame in outgoing:
        channel.send(frame)

    turn, is_done = 0, False
    while not is_done:
        transport.room_bytes = room[turn % len(room)]
        is_done = channel.flush()
        turn += 1

    assert transport.to_peer == b"".join(piece for pieces in frames for piece in pieces)
    assert all(frame.is_written for frame in outgoing)
    assert not channel.has_output


def test_more_pieces_than_the_system_takes() -> None:
    """They go out in slices of at most 1,024."""
    channel, transport = make()

    assert channel.send(OutgoingFrame([b"x"] * 5_000))
    assert transport.write_sizes == [1024, 1024, 1024, 1024, 904]
    assert len(transport.to_peer) == 5_000


def test_a_frame_waits_for_those_before_it() -> None:
    """Bytes that the socket did not accept are written first, even if it has room again."""
    channel, transport = make()
    transport.room_bytes = 2
    assert not channel.send(OutgoingFrame([b"abc"]))

    transport.room_bytes = 100
    assert channel.send(OutgoingFrame([b"def"]))
    assert transport.to_peer == b"abcdef"


def test_joined_writes_are_bounded() -> None:
    """Without scatter/gather a large request is copied a part at a time."""
    channel, transport = make(gathers=False)

    assert channel.send(OutgoingFrame([bytes(16_384)] * 64))
    assert len(transport.write_sizes) == 64 * 16_384 // JOIN_BYTES_MAX


def test_one_read_per_call() -> None:
    """A busy peer waits its turn: what did not fit the buffer comes with the next call."""
    channel, transport = make()
    transport.from_peer += (4).to_bytes(4, "big") + b"abcd" + (4).to_bytes(4, "big") + b"efgh"
    buffer = bytearray(10)

    assert channel.receive(buffer) == [b"abcd"]
    assert transport.reads == 1
    assert channel.receive(buffer) == [b"efgh"]
    assert channel.receive(buffer) == []


def test_a_closed_peer_is_told_from_a_cut_response() -> None:
    """The error says whether a frame was being read."""
    channel, transport = make()
    transport.is_eof = True
    with pytest.raises(Disconnected, match=r"closed the connection$"):
        channel.receive(bytearray(10))

    transport.from_peer += b"\0\0\0\x09abc"
    assert channel.receive(bytearray(10)) == []
    with pytest.raises(Disconnected, match="in the middle of a response"):
        channel.receive(bytearray(10))


@settings(max_examples=10, deadline=None)
@given(sizes=st.lists(st.integers(1, 60_000), min_size=1, max_size=40))
def test_a_tiny_socket_buffer(sizes: list[int]) -> None:
    """Over real sockets with 4 KiB of buffer, every byte arrives in order."""
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    near.setblocking(False)
    pieces = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    channel = Channel(PlainTransport(near), FrameReader())

    received = bytearray()
    is_done = channel.send(OutgoingFrame([memoryview(piece) for piece in pieces]))
    while not is_done:
        received += far.recv(1 << 20)
        is_done = channel.flush()
    channel.close()
    while part := far.recv(1 << 20):
        received += part
    far.close()

    assert received == b"".join(pieces)


@pytest.mark.parametrize("size_bytes", [10, 3 << 20])
def test_what_a_send_met_is_told_by_the_next_flush(size_bytes: int) -> None:
    """With its own reason, and the frame is still there: nobody can take it for written."""
    channel, transport = make()
    met = ConnectionResetError(104, "Connection reset by peer")

    def reject(pieces: object) -> int:  # noqa: ARG001 - the transport's signature
        raise met

    transport.write_pieces = reject  # type: ignore[method-assign]
    assert not channel.send(OutgoingFrame([bytes(size_bytes)]))
    assert channel.has_output
    with pytest.raises(ConnectionResetError) as raised:
        channel.flush()
    assert raised.value is met


LARGE = bytes(range(256)) * 40_000  # 10 MB


@pytest.mark.parametrize("in_place", [True, False])
def test_a_large_response_takes_few_turns(in_place: bool) -> None:
    """One turn reads on until the socket is empty, or so much was read that others want theirs."""
    channel, transport = make()
    transport.reads_in_place = in_place
    transport.from_peer += len(LARGE).to_bytes(4, "big") + LARGE + (4).to_bytes(4, "big") + b"next"
    buffer = bytearray(256 << 10)
    turns = []
    found: list[bytes | bytearray] = []
    while transport.from_peer:
        before = len(transport.from_peer)
        found += channel.receive(buffer)
        turns.append(before - len(transport.from_peer))
    assert found == [LARGE, b"next"]
    assert turns[0] == READ_ON_BYTES_MAX + len(buffer)
    assert len(turns) == (3 if in_place else 2)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("step", [1 << 16, 300_000, 1 << 20])
def test_a_large_response_in_pieces(in_place: bool, step: int) -> None:
    """However it arrives, and whatever is behind it, it is the same response."""
    channel, transport = make()
    transport.reads_in_place = in_place
    sent = b"".join(
        len(body).to_bytes(4, "big") + body for body in (LARGE[:3_000_000], b"abcd", LARGE)
    )
    buffer = bytearray(256 << 10)
    found: list[bytes | bytearray] = []
    for start in range(0, len(sent), step):
        transport.from_peer += sent[start : start + step]
        while transport.from_peer:
            found += channel.receive(buffer)
        assert channel.receive(buffer) == []
    assert found == [LARGE[:3_000_000], b"abcd", LARGE]


@pytest.mark.parametrize("in_place", [True, False])
def test_the_end_in_the_middle_of_a_large_response(in_place: bool) -> None:
    """The bytes are not a response; the error says so, once everything was read."""
    channel, transport = make()
    transport.reads_in_place = in_place
    transport.from_peer += len(LARGE).to_bytes(4, "big") + LARGE[:1_000_000]
    transport.is_eof = True
    buffer = bytearray(256 << 10)
    assert channel.receive(buffer) == []
    with pytest.raises(Disconnected, match="in the middle of a response"):
        channel.receive(buffer)


def test_memory_follows_the_bytes_that_arrived() -> None:
    """A frame that claims 90 MB and sends 1 MB has memory for 2 MB."""
    channel, transport = make()
    transport.from_peer += (90_000_000).to_bytes(4, "big") + bytes(1_000_000)
    buffer = bytearray(256 << 10)
    tracemalloc.start()
    try:
        assert channel.receive(buffer) == []
        assert channel.receive(buffer) == []
        assert tracemalloc.get_traced_memory()[0] < 2_200_000
    finally:
        tracemalloc.stop()
    assert not channel.reader.is_at_border
