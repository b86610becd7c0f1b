"""A connection that ends, or falls silent, after a given byte of one request or of its response."""

import enum
from collections import deque

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


class Spoiler:
    """Spoils one frame of a run: the n-th request of an API, or its response.

    Args:
        api: Of the request.
        occurrence: Which of its requests, from 0, over all links.
        at_byte: So many bytes of the frame leave, its size field included.
        ending: What happens then.
        is_response: The response is spoiled, not the request.

    Attributes:
        frame_bytes: Length of the frame, once it was written; −1 before.
        has_acted: The connection was ended.
    """

    def __init__(
        self, api: ApiKey, occurrence: int, at_byte: int, ending: Ending, *, is_response: bool
    ) -> None:
        self.frame_bytes = -1
        self.has_acted = False
        self._api = api
        self._left = occurrence
        self._at_byte = at_byte
        self._ending = ending
        self._is_response = is_response

    def watch(self, link: Link) -> None:
        """Look at what is written on a new link."""
        asked: deque[bool] = deque()  # for each request, whether it is the one
        up = _Frames()
        down = _Frames()

        def request(data: bytes) -> int:
            for frame, before in up.feed(data):
                is_it = self._is_target(frame)
                asked.append(is_it)
                if is_it and not self._is_response:
                    return self._spoil(link, frame, before)
            return len(data)

        def response(data: bytes) -> int:
            for frame, before in down.feed(data):
                if asked.popleft() and self._is_response:
                    return self._spoil(link, frame, before)
            return len(data)

        link.up.spoiler = request
        link.down.spoiler = response

    def _is_target(self, frame: bytes) -> bool:
        if int.from_bytes(frame[_SIZE_BYTES:_API_KEY_END], "big") != self._api:
            return False
        self._left -= 1
        return self._left == -1

    def _spoil(self, link: Link, frame: bytes, before: int) -> int:
        """End the connection; return how many of the bytes that are being written leave."""
        self.frame_bytes = len(frame)
        if self._at_byte > len(frame):
            return before + len(frame)
        self.has_acted = True
        scheduler = link.transport.network.scheduler
        match self._ending:
            case Ending.RESET:
                scheduler.after(MS, lambda: link.cut(loses=False))
            case Ending.CLOSED:
                scheduler.after(0, link.stream.close)
            case Ending.STALL:
                scheduler.after(STALL_MS * MS, lambda: link.cut(loses=False))
        link.up.spoiler = link.down.spoiler = lambda _: 0  # nothing else leaves
        return before + self._at_byte


class _Frames:
    """Finds the frames in what is written; a frame is written in one piece here."""

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
