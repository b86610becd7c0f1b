"""A connection that ends, or falls silent, after a given byte of one request or of its response."""

import enum
from collections import deque
from collections.abc import Callable
from functools import partial

from kprod.protocol.api import ApiKey
from tests.sim.link import Link
from tests.sim.scheduler import MS

STALL_MS = 200
_SIZE_BYTES = 4
_API_KEY_END = 6


class Ending(enum.Enum):
    """How a connection ends after the byte."""

    RESET = "reset at once"
    CLOSED = "closed by the peer"
    STALL = "silent for a while, then reset"


class ByteCut:
    """Where a connection is lost: at a byte of the n-th request of an API, or of its response.

    Args:
        api: Key of the request's API.
        occurrence: Index among that API's requests, from 0, over all connections.
        at_byte: Number of the frame's bytes that are sent, including the size field.
        is_response: The response is cut, not the request.

    Attributes:
        frame_bytes: Length of the frame, once it was written; −1 before.
        has_acted: The connection was lost.
    """

    def __init__(self, api: ApiKey, occurrence: int, at_byte: int, *, is_response: bool) -> None:
        self.frame_bytes = -1
        self.has_acted = False
        self.is_response = is_response
        self._api = api
        self._left = occurrence
        self._at_byte = at_byte

    def new_connection(self) -> "ConnectionCut":
        """Watch one more connection."""
        return ConnectionCut(self)

    def is_target(self, frame: bytes) -> bool:
        """Return whether a request is the one; asked once for each."""
        if int.from_bytes(frame[_SIZE_BYTES:_API_KEY_END], "big") != self._api:
            return False
        self._left -= 1
        return self._left == -1

    def leaving(self, frame: bytes) -> int | None:
        """Return how many bytes of the frame leave; None if the cut is behind its end."""
        self.frame_bytes = len(frame)
        if self._at_byte > len(frame):
            return None
        self.has_acted = True
        return self._at_byte


class ConnectionCut:
    """The bytes written on one connection, in both directions.

    Args:
        cut: Request and byte at which the connection is lost.

    Attributes:
        is_over: This is the connection that was lost: nothing leaves it any more.
    """

    def __init__(self, cut: ByteCut) -> None:
        self.is_over = False
        self._cut = cut
        self._asked: deque[bool] = deque()  # for each request, whether it is the one
        self._up = _Frames()
        self._down = _Frames()

    def request(self, data: bytes) -> int:
        """Take bytes of the client; return how many of them leave."""
        if self.is_over:
            return 0
        for frame, before in self._up.feed(data):
            is_it = self._cut.is_target(frame)
            self._asked.append(is_it)
            if is_it and not self._cut.is_response and self._loses(frame):
                return before + self._left
        return len(data)

    def response(self, data: bytes) -> int:
        """Take bytes of the broker; return how many of them leave."""
        if self.is_over:
            return 0
        for frame, before in self._down.feed(data):
            if self._asked.popleft() and self._cut.is_response and self._loses(frame):
                return before + self._left
        return len(data)

    def _loses(self, frame: bytes) -> bool:
        leaving = self._cut.leaving(frame)
        self._left = leaving or 0
        self.is_over = leaving is not None
        return self.is_over


class Spoiler:
    """Loses a connection of a simulated network.

    Args:
        cut: Request and byte at which the connection is lost.
        ending: How.
    """

    def __init__(self, cut: ByteCut, ending: Ending) -> None:
        self._cut = cut
        self._ending = ending

    def watch(self, link: Link) -> None:
        """Look at the bytes written on a new link."""
        connection = self._cut.new_connection()

        def spoil(side: Callable[[bytes], int], data: bytes) -> bytes:
            was_over = connection.is_over
            leaving = side(data)
            if connection.is_over and not was_over:
                self._end(link)
            return data[:leaving]

        link.up.spoiler = partial(spoil, connection.request)
        link.down.spoiler = partial(spoil, connection.response)

    def _end(self, link: Link) -> None:
        scheduler = link.transport.network.scheduler
        match self._ending:
            case Ending.RESET:
                scheduler.after(MS, lambda: link.cut(loses=False))
            case Ending.CLOSED:
                scheduler.after(0, link.stream.close)
            case Ending.STALL:
                scheduler.after(STALL_MS * MS, lambda: link.cut(loses=False))


class _Frames:
    """Finds the frames in written bytes, each with the bytes of the last piece before it."""

    def __init__(self) -> None:
        self._open = b""

    def feed(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return each frame that is whole now, and the bytes of `data` before it."""
        found = []
        stream = self._open + data
        at = 0
        while len(stream) - at >= _SIZE_BYTES:
            end = at + _SIZE_BYTES + int.from_bytes(stream[at : at + _SIZE_BYTES], "big")
            if end > len(stream):
                break
            found.append((stream[at:end], max(at - len(self._open), 0)))
            at = end
        self._open = stream[at:]
        return found
