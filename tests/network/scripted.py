"""A world with no system in it: memory sockets, a selector over them, and peers moved by hand."""

import functools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kprod.clock import ManualClock
from kprod.cluster.metadata import Metadata
from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.network.address_cursor import SocketAddress
from kprod.network.client import NetworkClient
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.connection_context import NetworkIO
from kprod.network.outgoing import Piece
from kprod.network.resolver import Resolution
from kprod.network.security import Security
from kprod.network.selector import EVENT_READ, EVENT_WRITE
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import SUPPORTED
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_request_header, encode_response_header
from kprod.timer.timer import Timer

ALL_VERSIONS = {int(key): versions for key, versions in SUPPORTED.items()}


class MemoryTransport:
    """The client's end of a connection that exists only in memory."""

    def __init__(self, address: SocketAddress, *, gathers: bool = True) -> None:
        """Start connecting."""
        self.address = address
        self.gathers = gathers
        self.reads_in_place = True
        self.peeks = True
        self.has_unread = False
        self.is_connected = False
        self.connect_error: OSError | None = None
        self.io_error: OSError | None = None
        self.room_bytes = 1 << 30  # what the peer's window takes
        self.to_peer = bytearray()
        self.from_peer = bytearray()
        self.write_sizes: list[int] = []  # pieces per write
        self.reads = 0
        self.is_eof = False
        self.is_closed = False

    def fileno(self) -> int:
        """A number that no system call may see."""
        return -1

    @property
    def ready_events(self) -> int:
        """The events that a selector would report."""
        if not self.is_connected:
            return EVENT_WRITE if self.connect_error else 0
        events = EVENT_WRITE if self.room_bytes else 0
        if self.from_peer or self.is_eof or self.io_error:
            events |= EVENT_READ
        return events

    def finish_connect(self) -> None:
        """Succeed or fail as the script says."""
        if self.connect_error:
            raise self.connect_error

    def write_pieces(self, pieces: Sequence[Piece]) -> int:
        """Take as much as there is room for."""
        assert len(pieces) <= 1024
        self.write_sizes.append(len(pieces))
        return self._take(b"".join(pieces))

    def write(self, piece: Piece) -> int:
        """Take as much as there is room for."""
        self.write_sizes.append(1)
        return self._take(bytes(piece))

    def read_into(
        self, buffer: bytearray, bytes_max: int = sys.maxsize, start: int = 0
    ) -> int | None:
        """Give what the peer has sent, as much as fits."""
        self.reads += 1
        if self.from_peer:
            count = min(len(buffer) - start, len(self.from_peer), bytes_max)
            buffer[start : start + count] = self.from_peer[:count]
            del self.from_peer[:count]
            return count
        if self.io_error:
            raise self.io_error
        return 0 if self.is_eof else None

    def peek_into(self, buffer: bytearray) -> int | None:
        """Show what the peer has sent, as much as fits."""
        count = min(len(buffer), len(self.from_peer))
        buffer[:count] = self.from_peer[:count]
        return count or None

    def close(self) -> None:
        """Note it."""
        self.is_closed = True

    def _take(self, joined: bytes) -> int:
        if self.io_error:
            raise self.io_error
        taken = joined[: self.room_bytes]
        self.room_bytes -= len(taken)
        self.to_peer += taken
        return len(taken)


class MemorySelector:
    """Readiness of memory transports; never sleeps, remembers what it was asked."""

    def __init__(self) -> None:
        """Start with nothing watched."""
        self.watched: dict[int, tuple[MemoryTransport, int, Any]] = {}
        self.timeouts_ms: list[int] = []
        self.wakeups = 0
        self.is_closed = False
        self.pauses = False
        self.before_select: Callable[[], object] | None = None  # lets peers act in a sleep

    @property
    def can_pause(self) -> bool:
        """As the test says; it takes `EVENT_NONE` either way."""
        return self.pauses

    def register(self, watched: Any, events: int, owner: Any) -> None:
        """Watch."""
        assert id(watched) not in self.watched
        self.watched[id(watched)] = (watched, events, owner)

    def modify(self, watched: Any, events: int, owner: Any) -> None:
        """Watch for other events."""
        assert id(watched) in self.watched
        self.watched[id(watched)] = (watched, events, owner)

    def unregister(self, watched: Any) -> None:
        """Stop watching."""
        assert not watched.is_closed
        del self.watched[id(watched)]

    def select(self, timeout_ms: int) -> list[tuple[Any, int]]:
        """Report at once."""
        assert timeout_ms >= 0
        self.timeouts_ms.append(timeout_ms)
        if self.before_select is not None:
            self.before_select()
        return [
            (owner, transport.ready_events & events)
            for transport, events, owner in list(self.watched.values())
            if transport.ready_events & events
        ]

    def wakeup(self) -> None:
        """Count."""
        self.wakeups += 1

    @property
    def waker(self) -> Callable[[], object]:
        """Count, too."""
        return self.wakeup

    def close(self) -> None:
        """Note it."""
        self.is_closed = True

    def close_after_fork(self) -> None:
        """Note it."""
        self.is_closed = True


class ScriptedResolver:
    """Names resolve when the test says so."""

    def __init__(self) -> None:
        """Start with nothing asked."""
        self.asked: list[tuple[str, int]] = []
        self.results: deque[Resolution] = deque()

    def request(self, host: str, port: int) -> None:
        """Note the question."""
        self.asked.append((host, port))

    def answer(self, host: str, port: int, *numbers: str, error: str | None = None) -> None:
        """Let a name resolve at the next poll."""
        addresses = [SocketAddress(2, number, port) for number in numbers]
        self.results.append(Resolution(host, port, addresses, error))

    def take(self) -> list[Resolution]:
        """Hand over."""
        taken = list(self.results)
        self.results.clear()
        return taken

    def close(self) -> None:
        """Nothing to close."""


class PeerRequest(NamedTuple):
    """One request as a peer decoded it."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: dict[str, Any]


class Peer:
    """The broker's end of one connection."""

    def __init__(self, transport: MemoryTransport) -> None:
        """Sit at the other end."""
        self.transport = transport

    def accept(self) -> "Peer":
        """Let the connection stand."""
        self.transport.is_connected = True
        return self

    def requests(self) -> list[PeerRequest]:
        """Take the requests that have arrived whole."""
        return list(self._cut())

    def request(self) -> PeerRequest:
        """Take exactly one request."""
        (request,) = self.requests()
        return request

    def respond(
        self, request: PeerRequest, body: Mapping[str, Any], *, version: int | None = None
    ) -> None:
        """Answer one request."""
        self.transport.from_peer += self.frame(request, body, version=version)

    @staticmethod
    def frame(
        request: PeerRequest, body: Mapping[str, Any], *, version: int | None = None
    ) -> bytes:
        """Make the bytes of a response."""
        version = request.version if version is None else version
        header = encode_response_header(request.api_key, version, request.correlation_id)
        payload = header + response_codec(request.api_key, version).encode(body)
        return len(payload).to_bytes(4, "big") + payload

    def send_versions(self, versions: Mapping[int, tuple[int, int]] = ALL_VERSIONS) -> None:
        """Answer ApiVersions."""
        request = self.request()
        assert request.api_key == ApiKey.API_VERSIONS
        self.respond(request, {"api_keys": api_keys(versions)})

    def close(self) -> None:
        """Say nothing more."""
        self.transport.is_eof = True

    def _cut(self) -> Iterator[PeerRequest]:
        stream = self.transport.to_peer
        while len(stream) >= 4:
            end = 4 + int.from_bytes(stream[:4], "big")
            if len(stream) < end:
                return
            frame = bytes(stream[4:end])
            del stream[:end]
            header, offset = decode_request_header(frame)
            body = request_codec(header.api_key, header.api_version).decode(frame[offset:])
            yield PeerRequest(
                header.api_key, header.api_version, header.correlation_id, header.client_id, body
            )


def api_keys(versions: Mapping[int, tuple[int, int]]) -> list[dict[str, int]]:
    """Write version ranges as ApiVersions does."""
    return [
        {"api_key": key, "min_version": low, "max_version": high}
        for key, (low, high) in versions.items()
    ]


def metadata_body(
    brokers: Mapping[int, tuple[str, int]],
    topics: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Make a Metadata response; topics map to (leader, epoch) per partition."""
    return {
        "brokers": [
            {"node_id": node_id, "host": host, "port": port}
            for node_id, (host, port) in brokers.items()
        ],
        "cluster_id": "cluster",
        "controller_id": min(brokers, default=-1),
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": index,
                        "leader_id": leader_id,
                        "leader_epoch": epoch,
                        "replica_nodes": [leader_id],
                        "isr_nodes": [leader_id],
                    }
                    for index, (leader_id, epoch) in enumerate(leaders)
                ],
            }
            for name, leaders in (topics or {}).items()
        ],
        **fields,
    }


class World:
    """One client, its clock, and every connection it has tried."""

    def __init__(
        self,
        bootstrap: str = "127.0.0.1:9001",
        *,
        seed: int = 7,
        gathers: bool = True,
        security: Security | None = None,
        **settings: Any,
    ) -> None:
        """Make a client that has not been polled."""
        config = ClientConfig(bootstrap_servers=parse_addresses(bootstrap), **settings)
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms())
        self.selector = MemorySelector()
        self.resolver = ScriptedResolver()
        self.transports: list[MemoryTransport] = []
        self.rejected: dict[str, OSError] = {}  # by address, at connect
        self.metadata = Metadata(config.metadata_settings(), rng=random.Random(seed))
        self._connect = functools.partial(self._make_transport, gathers)
        io = NetworkIO(selector=self.selector, resolver=self.resolver, connect=self._connect)
        self.client = NetworkClient(
            config.network_settings(),
            self.metadata,
            io,
            clock=self.clock,
            timer=self.timer,
            rng=random.Random(seed),
            security=security,
        )
        self.outcomes: list[Outcome] = []

    @property
    def now_ms(self) -> int:
        """The present."""
        return self.clock.now_ms()

    @property
    def newest(self) -> Peer:
        """The other end of the newest connection."""
        return Peer(self.transports[-1])

    def poll(self, advance_ms: int = 0) -> None:
        """Let time pass, then one turn."""
        if advance_ms:
            self.clock.advance(advance_ms)
        self.client.poll(1_000_000, self.now_ms)

    def connect(self, versions: Mapping[int, tuple[int, int]] = ALL_VERSIONS) -> Peer:
        """Bring the newest connection to READY."""
        self.poll()
        peer = self.newest.accept()
        self.poll()
        peer.send_versions(versions)
        self.poll()
        return peer

    def join(
        self,
        brokers: Mapping[int, tuple[str, int]],
        topics: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    ) -> Peer:
        """Connect to the bootstrap address and answer the first question."""
        peer = self.connect()
        self.poll()
        peer.respond(peer.request(), metadata_body(brokers, topics))
        self.poll()
        return peer

    def connect_node(
        self, node_id: int, versions: Mapping[int, tuple[int, int]] = ALL_VERSIONS
    ) -> Peer:
        """Bring the connection to a node of the snapshot to READY."""
        node = self.metadata.snapshot.nodes[node_id]
        assert not self.client.ready(node, self.now_ms)
        peer = self.newest.accept()
        assert peer.transport.address.port == node.port
        self.poll()
        peer.send_versions(versions)
        self.poll()
        return peer

    def request(self, node_id: int, **fields: Any) -> ClientRequest:
        """Make a request whose outcome is kept."""
        fields.setdefault("api_key", ApiKey.INIT_PRODUCER_ID)
        if "build" not in fields:
            fields.setdefault("body", {"transactional_id": None, "transaction_timeout_ms": 1})
        fields.setdefault("on_complete", self.outcomes.append)
        return ClientRequest(node_id=node_id, **fields)

    def send(self, node_id: int, **fields: Any) -> None:
        """Send such a request."""
        self.client.send(self.request(node_id, **fields), self.now_ms)

    def _make_transport(self, gathers: bool, address: SocketAddress) -> MemoryTransport:
        if str(address) in self.rejected:
            raise self.rejected[str(address)]
        transport = MemoryTransport(address, gathers=gathers)
        self.transports.append(transport)
        return transport


def ready_world(**settings: Any) -> tuple[World, Peer]:
    """A world whose node 1 is READY and has nothing in flight."""
    world = World(**settings)
    world.join({1: ("127.0.0.1", 9101)}, {"orders": [(1, 0)]})
    return world, world.connect_node(1)


Completion = Callable[[Outcome], object]
