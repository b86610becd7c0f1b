"""A member's connection: raw requests, one at a time, and their responses."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kprod.network.address_cursor import SocketAddress
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_response_header, encode_request_header
from tests.sim.client_io import Shortage
from tests.sim.scheduler import MS, Event

if TYPE_CHECKING:
    from kprod.protocol.api import ApiKey
    from tests.sim.link import Link
    from tests.sim.world import World

_BUFFER_BYTES = 1 << 16


class NoTap:
    """A tap on the wire that judges nothing: the members know what they asked."""

    def connected(self, link: "Link") -> None:
        """Ignore an attempt to connect."""

    def wrote(self, link: "Link", data: bytes) -> None:
        """Ignore written bytes."""

    def read(self, link: "Link", data: bytes) -> None:
        """Ignore read bytes."""

    def shut(self, link: "Link") -> None:
        """Ignore an end."""


class Wire:
    """One connection.

    Args:
        world: World of the run.
        client: The member's number among all clients of the run.
        port: The broker's.
        on_lost: Called when the connection has ended; with the request that got no response in its
            time, if that is the reason, and when it was made.

    Attributes:
        port: The broker's.
        is_open: The connection has not ended.
    """

    def __init__(
        self, world: "World", client: int, port: int, on_lost: Callable[[str, int], object]
    ) -> None:
        self.port = port
        self.is_open = True
        self._world = world
        self._client = client
        self._on_lost = on_lost
        self._unsent = b""
        self._arrived = bytearray()
        self._number = 0
        self._asked_ns = 0
        self._asked: tuple[ApiKey, int, Callable[[Mapping[str, Any]], object]] | None = None
        self._timeout: Event | None = None
        self._pumps = False
        address = SocketAddress(2, "127.0.0.1", port)
        self._transport = world.network.connect(client, Shortage(), address)
        self._transport.selector = self  # type: ignore[assignment]  # it is told as a selector is

    def look(self, _: object) -> None:
        """Read and write soon: something has changed."""
        if self.is_open and not self._pumps:
            self._pumps = True
            self._world.scheduler.after(0, self._pump)

    def note_progress(self) -> None:
        """Do nothing: only a selector counts its turns."""

    @property
    def is_busy(self) -> bool:
        """Whether a request waits for its response."""
        return self._asked is not None

    def ask(
        self,
        api: "ApiKey",
        version: int,
        body: Mapping[str, Any],
        on_answer: Callable[[Mapping[str, Any]], object],
        timeout_ms: int,
    ) -> None:
        """Send a request; none may wait."""
        assert not self.is_busy
        self._number += 1
        header = encode_request_header(api, version, self._number, f"member-{self._client}")
        frame = header + request_codec(api, version).encode(body)
        self._asked = api, version, on_answer
        self._asked_ns = self._world.scheduler.now_ns
        self._unsent += len(frame).to_bytes(4, "big") + frame
        self._timeout = self._world.scheduler.after(timeout_ms * MS, self._expire)
        self.look(None)

    def close(self) -> None:
        """Close the connection; nobody is told."""
        if self.is_open:
            self.is_open = False
            self._forget()
            self._transport.selector = None
            self._transport.close()

    def _expire(self) -> None:
        self._end(self._asked[0].name if self._asked else "")

    def _end(self, unanswered: str = "") -> None:
        if self.is_open:
            self.close()
            self._on_lost(unanswered, self._asked_ns)

    def _forget(self) -> None:
        self._asked = None
        if self._timeout is not None:
            self._timeout.is_cancelled = True
            self._timeout = None

    def _pump(self) -> None:
        self._pumps = False
        if not self.is_open:
            return
        try:
            has_ended = self._move_bytes()
        except OSError:
            self._end()
            return
        self._take_frames()
        if has_ended:
            self._end()

    def _move_bytes(self) -> bool:
        """Write and read what can be; returns whether the broker has closed."""
        transport = self._transport
        if not transport.is_connected:
            transport.finish_connect()
            return False
        if self._unsent:
            self._unsent = self._unsent[transport.write(self._unsent) :]
        buffer = bytearray(_BUFFER_BYTES)
        while count := transport.read_into(buffer):
            self._arrived += buffer[:count]
        return count == 0

    def _take_frames(self) -> None:
        while self.is_open and len(self._arrived) >= 4:
            size = int.from_bytes(self._arrived[:4], "big")
            if len(self._arrived) < 4 + size:
                return
            frame = bytes(self._arrived[4 : 4 + size])
            del self._arrived[: 4 + size]
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        """G6: responses come once each, to the request that waits."""
        if self._asked is None or int.from_bytes(frame[:4], "big") != self._number:
            number = int.from_bytes(frame[:4], "big")
            self._world.find("G6", f"member-{self._client} gets response {number} unasked")
            return
        api, version, on_answer = self._asked
        self._forget()
        _, at = decode_response_header(api, version, frame)
        on_answer(response_codec(api, version).decode(frame[at:]))
