"""Peeking over TLS: decrypted bytes wait for the next read, whatever comes in the middle."""

import ssl
from contextlib import suppress
from typing import Any

import pytest

from kprod.errors import Disconnected
from kprod.network import tls_transport
from tests.network.test_tls_transport import Pair

# By a thread: `ssl` would run a handler of SIGALRM.
pytestmark = pytest.mark.timeout(60, method="thread")

FRAME = b"\0\0\0\5frame"


def _peek(pair: Pair) -> bytes | None:
    count = pair.client.peek_into(pair.buffer)
    return None if count is None else bytes(pair.buffer[:count])


@pytest.fixture
def pair() -> Pair:
    """Both ends after the handshake, its tickets read."""
    made = Pair().shake_hands()
    assert made.read() is None
    return made


def test_a_peek_takes_nothing(pair: Pair) -> None:
    """It may be repeated, and the read gets the bytes; then the transport has none."""
    assert _peek(pair) is None
    assert not pair.client.has_unread
    pair.server.send(FRAME)
    assert [_peek(pair), _peek(pair)] == [FRAME, FRAME]
    assert pair.client.has_unread
    assert pair.client.read_into(pair.buffer, 4) == 4
    assert pair.read() == FRAME[4:]
    assert not pair.client.has_unread
    assert pair.read() is None


def test_tickets_are_no_data() -> None:
    """They may come with the peek."""
    pair = Pair().shake_hands()
    assert _peek(pair) is None
    assert not pair.client.has_unread


def test_records_are_peeked_together(pair: Pair) -> None:
    """Of any length, a single byte as well."""
    for piece in (FRAME[:1], FRAME[1:5], b"\xff", FRAME[5:]):
        pair.server.send(piece)
    assert _peek(pair) == FRAME[:5] + b"\xff" + FRAME[5:]


def test_a_small_buffer_shows_the_beginning(pair: Pair) -> None:
    """The read has all of it."""
    pair.server.send(b"x" * 50)
    small = bytearray(20)
    assert pair.client.peek_into(small) is None  # ciphertext of a part
    while pair.client.peek_into(small) is None:
        assert not pair.client.has_unread
    assert small == b"x" * 20
    assert pair.read() == b"x" * 50


@pytest.mark.parametrize("cut", range(0, 40, 3))
def test_a_record_in_parts(pair: Pair, cut: int) -> None:
    """Nothing until it is whole; the rest comes by the socket."""
    pair.server.send(FRAME)
    rest = bytes(pair.below.from_peer[cut:])
    del pair.below.from_peer[cut:]
    if rest:
        assert _peek(pair) is None
        assert not pair.client.has_unread
        pair.below.from_peer += rest
    assert _peek(pair) == FRAME


def test_the_end_of_the_session_is_no_data(pair: Pair) -> None:
    """The end of the stream, which follows it, is told by the socket."""
    pair.server.send(FRAME)
    with pytest.raises(ssl.SSLWantReadError):
        pair.server.tls.unwrap()
    pair.below.from_peer += pair.server.outgoing.read()
    pair.below.is_eof = True
    assert _peek(pair) == FRAME
    assert pair.read() == FRAME
    assert pair.read() == b""


@pytest.mark.parametrize("data", [b"", FRAME])
def test_a_stream_that_ends_before_the_connection(pair: Pair, data: bytes) -> None:
    """The next read has the end, which the socket does not show."""
    if data:
        pair.server.send(data)
    with suppress(ssl.SSLWantReadError):
        pair.server.tls.unwrap()
    pair.below.from_peer += pair.server.outgoing.read()
    assert _peek(pair) == (data or None)
    assert pair.client.has_unread
    assert pair.read() == data
    assert pair.read() == b""


def test_the_end_of_the_stream_stays_in_the_socket(pair: Pair) -> None:
    """A selector sees it there."""
    pair.below.is_eof = True
    assert _peek(pair) is None
    assert not pair.client.has_unread
    assert pair.read() == b""


def test_a_changed_bit_is_the_reads_error(pair: Pair) -> None:
    """A peek raises nothing, and shows nothing."""
    pair.server.send(FRAME)
    pair.below.from_peer[-1] ^= 1
    assert _peek(pair) is None
    assert pair.client.has_unread
    assert _peek(pair) is None
    with pytest.raises(Disconnected, match="TLS session with localhost:1 is broken"):
        pair.read()


class _Interrupted:
    """A session whose calls an interrupt follows: `ssl` raises it after OpenSSL has returned."""

    def __init__(self, session: Any, at_call: int) -> None:
        self._session = session
        self._at_call = at_call
        self.calls = 0

    def _called(self, result: int) -> int:
        self.calls += 1
        if self.calls == self._at_call:
            raise KeyboardInterrupt
        return result

    def read(self, count: int, target: Any) -> int:
        """Read, and maybe raise, whatever the result is."""
        try:
            result = self._session.read(count, target)
        except ssl.SSLError:
            self._called(0)
            raise
        return self._called(result)

    def write(self, piece: Any) -> int:
        """Write, and maybe raise."""
        return self._called(self._session.write(piece))

    def pending(self) -> int:
        """Tell the rest of a record; runs no handler."""
        return int(self._session.pending())


def _interrupt(pair: Pair, at_call: int) -> _Interrupted:
    interrupted = _Interrupted(pair.client._session, at_call)
    pair.client._session = interrupted
    return interrupted


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each interrupt that is raised later: here the session is Python code, too."""
    counted: list[int] = []
    monkeypatch.setattr(tls_transport, "interrupt_later", lambda: counted.append(1))
    return counted


@pytest.mark.parametrize("at_call", [1, 2])
@pytest.mark.parametrize("frame", [FRAME, b"\0"], ids=["a frame", "a byte"])
def test_an_interrupt_loses_no_byte(
    pair: Pair, later: list[int], frame: bytes, at_call: int
) -> None:
    """It is raised after the step."""
    pair.server.send(frame)
    interrupted = _interrupt(pair, at_call)
    assert _peek(pair) == frame
    assert later == [1] * (at_call <= interrupted.calls)
    assert pair.read() == frame


def test_an_interrupt_before_a_record_is_whole(pair: Pair, later: list[int]) -> None:
    """Nothing was read, so it is tried once more."""
    pair.server.send(FRAME)
    rest = bytes(pair.below.from_peer[9:])
    del pair.below.from_peer[9:]
    _interrupt(pair, 1)
    assert _peek(pair) is None
    assert later == [1]
    assert not pair.client.has_unread
    pair.below.from_peer += rest
    assert _peek(pair) == FRAME


def test_an_interrupt_that_leaves_a_doubt_ends_the_session(pair: Pair, later: list[int]) -> None:
    """A single byte between two records, whose value may be any."""
    pair.server.send(FRAME)
    pair.server.send(b"\xff")
    _interrupt(pair, 3)
    assert _peek(pair) == FRAME
    assert later == [1]
    assert pair.read() == FRAME
    with pytest.raises(Disconnected, match="between two records"):
        pair.read()


def test_an_interrupted_write_is_not_repeated(pair: Pair, later: list[int]) -> None:
    """The peer gets the bytes once."""
    _interrupt(pair, 1)
    assert pair.client.write_pieces([FRAME]) == len(FRAME)
    assert later == [1]
    assert pair.server.step() == FRAME
    assert pair.client.write_pieces([b"next"]) == 4
    assert pair.server.step() == b"next"


class _OwnSession(ssl.SSLObject):
    """Python code."""


def test_a_session_in_python_is_used_and_not_bypassed() -> None:
    """It cannot be peeked on the direct path."""
    context = Pair().client._ssl.context
    assert Pair().client.peeks
    context.sslobject_class = _OwnSession
    pair = Pair()
    client = type(pair.client)(pair.below, context, pair.client._peer)
    assert not client.peeks
    assert client._session is client._ssl


def test_a_debuggers_callback_is_python_code() -> None:
    """OpenSSL would call it on the direct path."""
    pair = Pair()
    context = pair.client._ssl.context
    setattr(context, "_msg_callback", lambda *_: None)  # noqa: B010 - no public attribute
    assert not type(pair.client)(pair.below, context, pair.client._peer).peeks
