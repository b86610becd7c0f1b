"""A link between a client and a broker: two pipes of bytes in virtual time.

Bytes are copied when they are written, in drawn slices, and arrive in order, each slice after the
link's delay. They outlive their sender: what flies when an end is closed still arrives, then the
end of the stream does. Between links there is no order.
"""

import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tests.sim.draw import Draw
from tests.sim.scheduler import MS, Scheduler

if TYPE_CHECKING:
    from tests.sim.client_io import SimTransport
    from tests.sim.network import SimNetwork, SimStream

UNBOUNDED = 1 << 40


class Tap(Protocol):
    """An observer of the client's side of every link."""

    def count(self, name: str) -> None:
        """Something rare has happened."""

    def connected(self, link: "Link") -> None:
        """A connection attempt has begun."""

    def wrote(self, link: "Link", data: bytes) -> None:
        """The client's socket took bytes."""

    def read(self, link: "Link", data: bytes) -> None:
        """The client read bytes."""

    def shut(self, link: "Link") -> None:
        """The client closed its end."""


class Conditions:
    """How links behave; faults change them, the calm makes new ones.

    Attributes:
        delay_ns: From a write to its arrival.
        slice_max: Bytes that arrive together at most.
        window: Bytes that a pipe holds at most.
        is_refusing: Connection attempts are rejected.
        is_black_hole: Connection attempts are never answered.
    """

    def __init__(self) -> None:
        self.delay_ns = MS // 4
        self.slice_max = UNBOUNDED
        self.window = UNBOUNDED
        self.is_refusing = False
        self.is_black_hole = False


class Pipe:
    """One direction of a link.

    Attributes:
        arrived: Bytes that the reader has not read.
        arrived_total: Number of all bytes that have arrived, read ones included.
        has_ended: Nothing more will arrive.
        held_until_ns: Time before which nothing in flight arrives.
        is_swallowing: Written bytes vanish.
        spoiler: Takes written bytes and returns those that leave; None lets all leave.
    """

    def __init__(
        self, scheduler: Scheduler, conditions: Conditions, draw: Draw, notify: Callable[[], object]
    ) -> None:
        self.arrived = bytearray()
        self.arrived_total = 0
        self.has_ended = False
        self.held_until_ns = 0
        self.is_swallowing = False
        self.spoiler: Callable[[bytes], bytes] | None = None
        self.on_room: Callable[[], object] = lambda: None
        self._scheduler = scheduler
        self._conditions = conditions
        self._draw = draw
        self._notify = notify
        self._flying: deque[bytes | None] = deque()  # None is the end of the stream
        self._flying_bytes = 0
        self._last_ns = 0

    @property
    def room(self) -> int:
        """Bytes that can be written now."""
        room = self._conditions.window - self._flying_bytes - len(self.arrived)
        return max(0, room)

    @property
    def flying_bytes(self) -> int:
        """Bytes that are written and have not arrived."""
        return self._flying_bytes

    def write(self, data: bytes) -> int:
        """Take as many bytes as there is room for."""
        taken = data[: self.room]
        if self.is_swallowing:
            return len(taken)
        leaving = taken if self.spoiler is None else self.spoiler(taken)
        self._launch_slices(leaving)
        return len(taken)

    def _launch_slices(self, taken: bytes) -> None:
        at = 0
        while at < len(taken):
            size = self._draw.between(1, min(self._conditions.slice_max, len(taken) - at))
            if self._conditions.slice_max >= len(taken):
                size = len(taken) - at
            self._launch(taken[at : at + size])
            at += size

    def thaw(self) -> None:
        """End a hold: what flies arrives now."""
        self.held_until_ns = 0
        for _ in self._flying:
            self._scheduler.after(0, self._land)

    def end(self) -> None:
        """Let the end of the stream follow what flies."""
        if not self.is_swallowing:
            self._launch(None)

    def lose(self) -> None:
        """Drop what flies; nothing more arrives."""
        self._flying.clear()
        self._flying_bytes = 0
        self.is_swallowing = True

    def read(self, count: int) -> bytes:
        """Take bytes that have arrived."""
        taken = bytes(self.arrived[:count])
        del self.arrived[:count]
        if taken:
            self.on_room()
        return taken

    def _launch(self, segment: bytes | None) -> None:
        self._flying.append(segment)
        self._flying_bytes += len(segment or b"")
        now_ns = self._scheduler.now_ns
        self._last_ns = max(now_ns + self._conditions.delay_ns, self._last_ns)
        self._scheduler.at(max(self._last_ns, self.held_until_ns), self._land)

    def _land(self) -> None:
        if self._scheduler.now_ns < self.held_until_ns:
            self._scheduler.at(self.held_until_ns, self._land)
            return
        if not self._flying:
            return
        segment = self._flying.popleft()
        if segment is None:
            self.has_ended = True
        else:
            self._flying_bytes -= len(segment)
            self.arrived += segment
            self.arrived_total += len(segment)
        self._notify()


class Link:
    """One connection, from its first packet on; its two ends are added by the network.

    Attributes:
        number: Its number among all links of the run.
        client: Number of the client.
        port: The broker's.
        transport: The client's end.
        stream: The broker's end.
        is_blocked: The client has more to write than there was room for.
        is_lost: Its first packet met a black hole.
    """

    def __init__(self, network: "SimNetwork", number: int, client: int, port: int) -> None:
        scheduler, conditions = network.scheduler, network.conditions
        draw = Draw(network.seed, f"link/{port}/{number}")
        self.number = number
        self.client = client
        self.port = port
        self.up = Pipe(scheduler, conditions, draw, network.broker_has_work)
        self.down = Pipe(scheduler, conditions, draw, self._tell_client)
        self.transport: SimTransport
        self.stream: SimStream
        self.is_blocked = False
        self.is_lost = False
        self.up.on_room = self._tell_client
        self.down.on_room = network.broker_has_work
        self.is_cut = False

    def cut(self, *, loses: bool) -> None:
        """Reset both ends now; what flies to the broker is lost or arrives."""
        self.is_cut = True
        if loses:
            self.up.lose()
            self.up.has_ended = True
        else:
            self.up.end()
        self.down.lose()
        self.transport.error = ConnectionResetError(errno.ECONNRESET, "reset by the simulation")
        self.stream.network.broker_has_work()
        self._tell_client()

    def go_silent(self) -> None:
        """Swallow bytes written from now on, both ways."""
        self.up.is_swallowing = self.down.is_swallowing = True

    def hold(self, duration_ns: int) -> None:
        """Let nothing arrive for a while, in either direction."""
        until_ns = self.transport.network.scheduler.now_ns + duration_ns
        self.up.held_until_ns = self.down.held_until_ns = until_ns

    def _tell_client(self) -> None:
        self.transport.tell()
