"""The client's side of the simulated network: transports, a selector that sleeps, a resolver."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kprod.network.address_cursor import SocketAddress
from kprod.network.outgoing import Piece
from kprod.network.resolver import Resolution
from kprod.network.selector import EVENT_READ, EVENT_WRITE
from kprod.network.socket_wait import SocketWait
from tests.sim.draw import Draw
from tests.sim.link import Link
from tests.sim.scheduler import MS, Actor, LivelockError, Scheduler

if TYPE_CHECKING:
    from tests.sim.network import SimNetwork

_BYTES_MAX = 1 << 62
TURNS_MAX = 2_000


class Shortage:
    """Lets one call of a client's I/O fail for want of memory.

    Attributes:
        calls_left: The call that fails, counted down to 1; 0 lets all succeed.
        failed: Calls that have failed.
    """

    def __init__(self) -> None:
        self.calls_left = 0
        self.failed = 0

    def pass_door(self) -> None:
        """Fail if it is this call's turn."""
        if self.calls_left:
            self.calls_left -= 1
            if not self.calls_left:
                self.failed += 1
                raise MemoryError("the simulation's I/O has no memory")


class SimTransport:
    """The client's end of a link.

    Args:
        link: The link of one connection.
        network: Has all links.
        shortage: The client's.
    """

    gathers = True
    reads_in_place = True
    peeks = True
    has_unread = False

    def __init__(self, link: Link, network: "SimNetwork", shortage: Shortage) -> None:
        self.link = link
        self._shortage = shortage
        self.network = network
        self.selector: SimSelector | None = None
        self.socket_wait: SimSocketWait | None = None
        self.is_connected = False
        self.connect_error: OSError | None = None
        self.error: OSError | None = None
        self.is_closed = False

    def fileno(self) -> int:
        """Return a number that no system call may see."""
        return -1

    def ready_events(self, wanted: int) -> int:
        """Return those of some events that a selector reports."""
        if not self.is_connected:
            return wanted & EVENT_WRITE if self.connect_error or self.error else 0
        if self.error:
            return wanted
        down = self.link.down
        events = wanted & EVENT_READ if down.arrived or down.has_ended else 0
        if wanted & EVENT_WRITE and self.link.up.room:
            events |= EVENT_WRITE
        return events

    def tell(self) -> None:
        """Wake the client if it waits for this transport."""
        if self.selector is not None:
            self.selector.look(self)
        if self.socket_wait is not None:
            self.socket_wait.look()

    def finish_connect(self) -> None:
        """Complete the connection, or raise what it ended with."""
        if error := self.connect_error or self.error:
            raise error

    def write_pieces(self, pieces: Sequence[Piece]) -> int:
        """Take as much as there is room for."""
        return self.write(b"".join(pieces))

    def write(self, piece: Piece) -> int:
        """Take as much as there is room for, copied."""
        self._shortage.pass_door()
        if self.error:
            raise self.error
        data = bytes(piece)
        count = self.link.up.write(data)
        if count:
            self.network.tap.wrote(self.link, data[:count])
        self.link.is_blocked = count < len(data)
        return count

    def read_into(
        self, buffer: bytearray, bytes_max: int = _BYTES_MAX, start: int = 0
    ) -> int | None:
        """Give the bytes that arrived, as many as fit."""
        self._shortage.pass_door()
        down = self.link.down
        if self.error:
            raise self.error
        data = down.read(min(len(buffer) - start, bytes_max))
        if data:
            buffer[start : start + len(data)] = data
            self.network.tap.read(self.link, data)
            if self.selector is not None:
                self.selector.note_progress()
            return len(data)
        return 0 if down.has_ended else None

    def peek_into(self, buffer: bytearray) -> int | None:
        """Show what has arrived, as much as fits."""
        if self.error:
            raise self.error
        data = bytes(self.link.down.arrived[: len(buffer)])
        buffer[: len(data)] = data
        return len(data) or (0 if self.link.down.has_ended else None)

    def close(self) -> None:
        """Close the client's end; what flies to the broker still arrives, then the end."""
        if not self.is_closed:
            self.is_closed = True
            self.network.tap.shut(self.link)
            if not self.link.is_cut:
                self.link.up.end()
            self.link.down.lose()


class SimSocketWait(SocketWait):
    """Waits in virtual time until one transport is readable, or until it is woken."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._transport: SimTransport | None = None
        self._seen_bytes = -1  # those that had arrived when the last wait ended
        self._is_woken = False
        self._sleeper: Actor | None = None

    @property
    def _is_readable(self) -> bool:
        transport = self._transport
        if transport is None or not transport.ready_events(EVENT_READ):
            return False
        down = transport.link.down
        is_old = self.by_edges and down.arrived_total == self._seen_bytes
        return not is_old or down.has_ended or transport.error is not None

    def watch(self, transport: Any) -> None:
        """See `SocketWait.watch`."""
        if self._transport is not None:
            self._transport.socket_wait = None
            self._seen_bytes = -1
        self._transport = transport
        transport.socket_wait = self

    def wait(self, timeout_s: float) -> None:
        """See `SocketWait.wait`."""
        if not self._is_woken and not self._is_readable and timeout_s > 0:
            self._sleeper = self._scheduler.current
            assert self._sleeper is not None, "an event of the simulation would wait for a socket"
            self._sleeper.sleep(self._scheduler.now_ns + int(timeout_s * 1_000 * MS))
            self._sleeper = None
        if self._transport is not None:
            self._seen_bytes = self._transport.link.down.arrived_total
        self._is_woken = False

    def wake(self) -> None:
        """See `SocketWait.wake`."""
        self._is_woken = True
        if self._sleeper is not None:
            self._sleeper.wake()

    def look(self) -> None:
        """End the wait if the transport has become readable."""
        if self._sleeper is not None and self._is_readable:
            self._sleeper.wake()

    def close_after_fork(self) -> None:
        """See `SocketWait.close_after_fork`."""


class SimSelector:
    """Readiness of one client's transports; sleeps by giving way to other actors.

    Args:
        scheduler: Scheduler of the run.
        draw: Orders sockets that are ready together.
        shortage: The client's.
        can_pause: See the attribute.

    Attributes:
        sleeper: The actor that slept here last: the sender.
        can_pause: The direct path may wait for a response beside the selector.
    """

    def __init__(
        self, scheduler: Scheduler, draw: Draw, shortage: Shortage, *, can_pause: bool
    ) -> None:
        self.can_pause = can_pause
        self._shortage = shortage
        self.sleeper: Actor | None = None
        self._turns = 0
        self._turned_ns = 0
        self._scheduler = scheduler
        self._draw = draw
        self._watched: dict[SimTransport, tuple[int, Any]] = {}
        self._is_woken = False
        self._sleeps = False

    def register(self, watched: Any, events: int, owner: Any) -> None:
        """Watch a transport."""
        assert watched not in self._watched
        self._shortage.pass_door()
        watched.selector = self
        self._watched[watched] = (events, owner)

    def modify(self, watched: Any, events: int, owner: Any) -> None:
        """Watch for other events."""
        assert watched in self._watched
        self._watched[watched] = (events, owner)

    def unregister(self, watched: Any) -> None:
        """Stop watching."""
        assert not watched.is_closed
        watched.selector = None
        del self._watched[watched]

    @property
    def is_asleep(self) -> bool:
        """Whether the client sleeps here now."""
        return self._sleeps

    def look(self, transport: SimTransport) -> None:
        """Wake the client if what it watches a transport for has come."""
        if self._sleeps and self.sleeper is not None:
            events, _ = self._watched.get(transport, (0, None))
            if transport.ready_events(events):
                self.sleeper.wake()

    def select(self, timeout_ms: int) -> list[tuple[Any, int]]:
        """Sleep until something is ready, `wakeup`, or the time is over."""
        assert timeout_ms >= 0
        self._shortage.pass_door()
        self._check_spin()
        ready = self._ready()
        if not ready and not self._is_woken and timeout_ms:
            self.sleeper = self._scheduler.current
            assert self.sleeper is not None, "the client sleeps outside of an actor"
            self._sleeps = True
            # The end of a sleep in whole milliseconds is the end of the last one, as epoll's.
            self.sleeper.sleep(self._scheduler.now_ns + timeout_ms * MS)
            self._sleeps = False
            ready = self._ready()
        self._is_woken = False
        return ready

    def _check_spin(self) -> None:
        """I12: a sender that never sleeps would never let time pass."""
        if self._turned_ns != self._scheduler.now_ns:
            self._turned_ns = self._scheduler.now_ns
            self._turns = 0
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise LivelockError(f"{TURNS_MAX} turns of a sender at one instant")

    def note_progress(self) -> None:
        """Start to count again: a response in thousands of pieces takes as many turns."""
        self._turns = 0

    def _ready(self) -> list[tuple[Any, int]]:
        ready = [
            (owner, found)
            for transport, (events, owner) in self._watched.items()
            if (found := transport.ready_events(events))
        ]
        for last in range(len(ready) - 1, 0, -1):  # epoll promises no order
            other = self._draw.below(last + 1)
            ready[last], ready[other] = ready[other], ready[last]
        return ready

    def wakeup(self) -> None:
        """End the present or the next sleep."""
        self._is_woken = True
        if self._sleeps and self.sleeper is not None:
            self.sleeper.wake()

    @property
    def waker(self) -> Callable[[], object]:
        """The same as `wakeup`."""
        return self.wakeup

    def close(self) -> None:
        """Forget everything."""
        self._watched.clear()

    def close_after_fork(self) -> None:
        """Forget everything."""
        self._watched.clear()


class SimResolver:
    """Names of the simulated world: all are brokers' addresses; an outage makes them unknown.

    Attributes:
        is_failing: Names are unknown at present.
    """

    def __init__(self, scheduler: Scheduler, wakeup: Callable[[], object]) -> None:
        self.is_failing = False
        self._scheduler = scheduler
        self._wakeup = wakeup
        self._results: list[Resolution] = []

    def request(self, host: str, port: int) -> None:
        """Resolve a name after some milliseconds."""
        self._scheduler.after(3 * MS, lambda: self._resolve(host, port))

    def take(self) -> list[Resolution]:
        """Hand over resolved names."""
        taken, self._results = self._results, []
        return taken

    def close(self) -> None:
        """Forget everything."""
        self._results.clear()

    def _resolve(self, host: str, port: int) -> None:
        if self.is_failing:
            result = Resolution(host, port, [], "the name is unknown for a while")
        else:
            result = Resolution(host, port, [SocketAddress(2, "127.0.0.1", port)])
        self._results.append(result)
        self._wakeup()
