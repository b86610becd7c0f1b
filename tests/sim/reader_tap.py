"""Watches the wire of a consumer: its requests keep their number, their pace and their memory.

Source: R7 and R8 of the invariants of reading; KIP-227 for sessions.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from kprod.consumer.fetch_session import LOST_CODES
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_request_header, decode_response_header
from tests.sim.link import Link
from tests.sim.scheduler import MS
from tests.sim.tap import FrameStream

_EMPTY_BYTES = 60
"""A response of a fetch that is no longer has no records; it need not be decoded."""
_STORM = 60
_STORM_NS = 1_000 * MS
"""More responses without records in this time, from one broker, are a storm."""
_LEAST_BYTES = 1_024
_FINAL_EPOCH = -1


class ReaderTap:
    """The rules for one consumer's links.

    Args:
        find: Takes the invariant's name and the observation.
        config: The consumer's.
        now_ns: The present instant.
        count: Counts something rare.
        held: Returns the bytes of responses that the consumer holds.
        is_asleep: Whether the I/O thread sleeps.

    Attributes:
        out_of_range: Partitions whose offset a broker rejected as being in no log, by index.
    """

    def __init__(
        self,
        find: Callable[[str, str], object],
        config: Any,
        now_ns: Callable[[], int],
        count: Callable[[str], object],
        held: Callable[[], int],
        is_asleep: Callable[[], bool],
    ) -> None:
        self._find = find
        self._config = config
        self._now_ns = now_ns
        self._count = count
        self._held = held
        self._is_asleep = is_asleep
        self._up: dict[int, FrameStream] = defaultdict(FrameStream)
        self._down: dict[int, FrameStream] = defaultdict(FrameStream)
        self._waiting: dict[int, list[tuple[int, int, int, Link]]] = defaultdict(list)
        self._attempted_ns: dict[int, int] = {}
        self._asked: dict[int, int] = {}  # bytes that a fetch in flight may bring, by link
        self._overshoot = 0  # most bytes that a response had beyond them
        self._without: dict[int, deque[int]] = defaultdict(deque)
        self._sessions: dict[int, int] = {}  # by link

    def connected(self, link: Link) -> None:
        """R8: attempts at one broker keep their distance."""
        before_ns = self._attempted_ns.get(link.port)
        now_ns = self._now_ns()
        least_ns = int(0.8 * self._config.reconnect_backoff_ms * MS) - 2 * MS
        if before_ns is not None and now_ns - before_ns < least_ns:
            apart_ms = (now_ns - before_ns) / MS
            self._find("R8", f"two attempts at port {link.port} within {apart_ms:.1f} ms")
        self._attempted_ns[link.port] = now_ns

    def wrote(self, link: Link, data: bytes) -> None:
        """Look at every request that is written whole."""
        self._attempted_ns.pop(link.port, None)
        for frame in self._up[link.number].feed(data):
            self._take_request(link, frame)

    def read(self, link: Link, data: bytes) -> None:
        """Look at every response that is read whole."""
        if self._is_asleep():
            self._count("response was read by the polling thread")
        for frame in self._down[link.number].feed(data):
            self._take_response(link, frame)

    def shut(self, link: Link) -> None:
        """Forget requests in flight."""
        self._waiting.pop(link.number, None)
        self._asked.pop(link.number, None)

    def _take_request(self, link: Link, frame: bytes) -> None:
        header, offset = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        self._waiting[link.number].append((key, version, header.correlation_id, link))
        flying = [it for many in self._waiting.values() for it in many if it[0] == key]
        if key == ApiKey.METADATA and len(flying) > 1:
            self._find("R8", f"{len(flying)} Metadata requests in flight")
        if key == ApiKey.OFFSET_FOR_LEADER_EPOCH:
            self._count("epochs were asked for")
        if key != ApiKey.FETCH:
            return
        body = request_codec(key, version).decode(frame[offset:])
        if body["session_epoch"] == _FINAL_EPOCH:
            self._count("session was closed")
            return
        same = sum(it[3].port == link.port for it in flying)
        if same > 1:
            self._find("R8", f"{same} fetches in flight to port {link.port}")
        self._asked[link.number] = body["max_bytes"]
        self._check_memory()

    def _check_memory(self) -> None:
        """R7: requested and held bytes fit into the memory, but for a last batch."""
        asked, held = sum(self._asked.values()), self._held()
        slack = len(self._asked) * _LEAST_BYTES + 5 * self._overshoot
        if asked + held > self._config.fetch_buffer_memory + slack:
            self._find("R7", f"{asked} bytes are asked for, {held} are held")

    def _take_response(self, link: Link, frame: bytes) -> None:
        waiting = self._waiting[link.number]
        if not waiting or waiting[0][2] != int.from_bytes(frame[:4], "big"):
            return
        key, version, _, _ = waiting.pop(0)
        if key != ApiKey.FETCH:
            return
        asked = self._asked.pop(link.number, 0)
        found_bytes = 0
        if len(frame) > _EMPTY_BYTES:
            _, at = decode_response_header(key, version, frame)
            found_bytes = self._look_at(response_codec(key, version).decode(frame[at:]))
        self._overshoot = max(self._overshoot, found_bytes - asked)
        if not found_bytes:
            self._note_without(link.port)
            _, at = decode_response_header(key, version, frame)
            if int.from_bytes(frame[at + 4 : at + 6], "big") in LOST_CODES:
                self._count("session was lost")

    def _look_at(self, body: Any) -> int:
        found_bytes = 0
        for topic in body["responses"]:
            for answer in topic["partitions"]:
                self._count(f"fetch response {answer['error_code']}")
                if (answer.get("diverging_epoch") or {"end_offset": -1})["end_offset"] >= 0:
                    self._count("fetch found another epoch")
                if answer.get("aborted_transactions"):
                    self._count("aborted transactions were told")
                found_bytes += len(answer["records"] or b"")
        if found_bytes and sum(bool(it["records"]) for it in _answers(body)) > 1:
            self._count("block is shared by several partitions")
        return found_bytes

    def _note_without(self, port: int) -> None:
        """R8: a broker is not asked again and again for nothing."""
        times, now_ns = self._without[port], self._now_ns()
        times.append(now_ns)
        while times[0] < now_ns - _STORM_NS:
            times.popleft()
        if len(times) > _STORM:
            self._find("R8", f"{len(times)} fetches from port {port} brought nothing in a second")
            times.clear()


def _answers(body: Any) -> list[Any]:
    return [answer for topic in body["responses"] for answer in topic["partitions"]]
