"""TLS over a transport in memory: bytes written, bytes read, and their counts."""

import random
import ssl
from collections import deque
from contextlib import suppress

import pytest

from kprod.broker import BrokerSecurity
from kprod.broker.security.authority import authority
from kprod.config import SecurityConfig
from kprod.errors import Disconnected, TlsFailed
from kprod.network.address_cursor import SocketAddress
from kprod.network.selector import EVENT_READ
from kprod.network.tls_context import make_context
from kprod.network.tls_errors import TlsPeer
from kprod.network.tls_transport import TLS_CHUNK_BYTES, TlsTransport
from tests.network.scripted import MemoryTransport

BUFFER_BYTES = 256 * 1024


class Server:
    """The broker's end, by Python's own TLS."""

    def __init__(self, below: MemoryTransport) -> None:
        """Sit at the other end of a transport."""
        self.below = below
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = authority().server_context(BrokerSecurity(protocol="SSL"))
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def step(self) -> bytes:
        """Take the bytes that arrived; returns the client's plaintext."""
        self.incoming.write(bytes(self.below.to_peer))
        self.below.to_peer.clear()
        received = bytearray()
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()  # nothing, when it is over
            while piece := self.tls.read(1 << 16):
                received += piece
        self.below.from_peer += self.outgoing.read()
        return bytes(received)

    def send(self, plaintext: bytes) -> None:
        """Send to the client."""
        self.tls.write(plaintext)
        self.below.from_peer += self.outgoing.read()


class Pair:
    """A client's transport and its peer."""

    def __init__(self, host: str = "localhost") -> None:
        """Connect, without a handshake."""
        config = SecurityConfig.parse({"security_protocol": "SSL", "ssl_cadata": authority().pem})
        self.below = MemoryTransport(SocketAddress(2, "127.0.0.1", 1))
        peer = TlsPeer(f"{host}:1", host, config)
        self.client = TlsTransport(self.below, make_context(config), peer)
        self.server = Server(self.below)
        self.buffer = bytearray(BUFFER_BYTES)

    def shake_hands(self) -> "Pair":
        """Bring both ends through the handshake."""
        for _ in range(4):
            if self.client.shake_hands(self.buffer) == 0:
                self.server.step()
                return self
            self.server.step()
        raise AssertionError("the handshake does not end")

    def read(self) -> bytes | None:
        """The bytes that the client reads at once."""
        count = self.client.read_into(self.buffer)
        return None if count is None else bytes(self.buffer[:count])


def test_bytes_go_both_ways() -> None:
    """In order, and whole."""
    pair = Pair().shake_hands()
    assert pair.client.write_pieces([b"one", memoryview(b" two")]) == 7
    assert pair.server.step() == b"one two"
    assert pair.read() is None  # tickets are no data
    pair.server.send(b"three")
    assert pair.read() == b"three"
    assert pair.read() is None
    assert pair.client.description.startswith("TLSv1.3 ")


def test_a_handshake_waits_for_the_peer() -> None:
    """It is over when both have spoken."""
    pair = Pair()
    assert pair.client.shake_hands(pair.buffer) == EVENT_READ
    assert not pair.client.description


def test_a_dot_at_the_end_of_a_name_is_taken_off() -> None:
    """A name as it is written for a resolver; certificates do not have it."""
    assert Pair("localhost.").shake_hands().client.description


@pytest.mark.parametrize(
    ("host", "sent"), [("localhost", "localhost"), ("localhost.", "localhost"), ("127.0.0.1", None)]
)
def test_the_name_is_sent_in_the_handshake(host: str, sent: str | None) -> None:
    """The name that is checked; an address is none (RFC 6066)."""
    names: list[str | None] = []
    pair = Pair(host)
    pair.server.tls.context.sni_callback = lambda _tls, name, _context: names.append(name)
    pair.shake_hands()
    assert names == [sent]


def test_bytes_count_when_all_their_ciphertext_has_left() -> None:
    """A partly written chunk does not count: the broker cannot have all of it."""
    pair = Pair().shake_hands()
    chunk = bytes(100_000)
    pair.below.room_bytes = 60_000
    assert pair.client.write_pieces([chunk]) == 0
    assert pair.client.write_pieces([chunk]) == 0
    pair.below.room_bytes = 1 << 20
    assert pair.client.write_pieces([chunk]) == len(chunk)
    assert pair.server.step() == chunk


def test_one_call_takes_one_chunk() -> None:
    """As many pieces as fit, and the rest with the next call."""
    pair = Pair().shake_hands()
    pieces = [bytes([number]) * (300 << 10) for number in range(5)]
    assert pair.client.write_pieces([*pieces]) == TLS_CHUNK_BYTES
    joined = b"".join(pieces)
    assert pair.server.step() == joined[:TLS_CHUNK_BYTES]


@pytest.mark.parametrize("seed", range(20))
def test_any_socket_gives_the_same_bytes(seed: int) -> None:
    """Full at any byte, pieces and reads of any length: a queue of bytes is the model."""
    chance = random.Random(seed)
    pair = Pair().shake_hands()
    outbox: deque[bytes] = deque(
        chance.randbytes(chance.choice((1, 50, 5_000, 40_000))) for _ in range(30)
    )
    wanted, received, written_bytes = b"".join(outbox), b"", 0
    while outbox:
        pair.below.room_bytes = chance.choice((0, 1, 700, 20_000, 1 << 20))
        count = pair.client.write_pieces(list(outbox))
        written_bytes += count
        while count:
            piece = outbox.popleft()
            if len(piece) > count:
                outbox.appendleft(piece[count:])
            count -= min(count, len(piece))
        received += pair.server.step()
        assert written_bytes <= len(received)
    assert received == wanted

    answer = chance.randbytes(400_000)
    pair.server.send(answer)
    ciphertext, found = bytes(pair.below.from_peer), b""
    pair.below.from_peer.clear()
    while ciphertext:
        cut = chance.choice((1, 100, 20_000, 300_000))
        pair.below.from_peer += ciphertext[:cut]
        ciphertext = ciphertext[cut:]
        while pair.below.from_peer:
            found += pair.read() or b""
    assert found == answer


@pytest.mark.parametrize("bare", [True, False])
def test_the_end_of_the_stream(bare: bool) -> None:
    """Told or not, it is an end and never a response; bytes before it are read."""
    pair = Pair().shake_hands()
    pair.server.send(b"last")
    if not bare:
        with pytest.raises(ssl.SSLWantReadError):
            pair.server.tls.unwrap()
        pair.below.from_peer += pair.server.outgoing.read()
    pair.below.is_eof = True
    assert pair.read() == b"last"
    assert pair.read() == b""


@pytest.mark.parametrize("data", [b"", b"five"])
def test_a_stream_that_ends_before_the_connection(data: bytes) -> None:
    """It is noticed at once, also behind data, although the socket says nothing more."""
    pair = Pair().shake_hands()
    assert pair.read() is None
    if data:
        pair.server.send(data)
    with suppress(ssl.SSLWantReadError):
        pair.server.tls.unwrap()
    pair.below.from_peer += pair.server.outgoing.read()
    if data:
        assert pair.read() == data
        assert pair.client.has_unread
    assert pair.read() == b""
    assert pair.read() == b""


def test_a_record_that_was_changed_ends_the_session() -> None:
    """Nothing of it is read, and the peer is told by an alert."""
    pair = Pair().shake_hands()
    pair.read()
    pair.server.send(b"a response")
    pair.below.from_peer[-1] ^= 1
    with pytest.raises(Disconnected, match="TLS session with localhost:1 is broken"):
        pair.read()
    assert pair.below.to_peer
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        pair.server.step()


def test_closing_tells_the_peer_once() -> None:
    """By 24 bytes, and the transport below is closed."""
    pair = Pair().shake_hands()
    pair.client.close()
    told = len(pair.below.to_peer)
    pair.client.close()
    assert pair.below.is_closed
    assert 0 < len(pair.below.to_peer) == told


def test_a_forked_child_tells_nobody() -> None:
    """Its parent's session continues."""
    pair = Pair().shake_hands()
    pair.client.close_after_fork()
    assert pair.below.is_closed
    assert not pair.below.to_peer


def test_a_stranger_gets_nothing_but_an_alert() -> None:
    """The name is checked within the handshake, before any request."""
    pair = Pair("kafka.example.org")
    with pytest.raises(TlsFailed, match=r"not for 'kafka\.example\.org'") as caught:
        pair.shake_hands()
    assert caught.value.is_identity
    with pytest.raises(ssl.SSLError):
        pair.server.step()
