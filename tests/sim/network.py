"""The brokers' side of the simulated network, and every link of a run.

`SimNetwork` is what an embedded cluster takes for its sockets, and what clients connect through.
"""

import errno
from collections import deque
from collections.abc import Callable, Sequence

from kprod.broker.sockets import Listener, Ready, Stream, Watcher
from kprod.network.address_cursor import SocketAddress
from tests.sim.client_io import Shortage, SimTransport
from tests.sim.link import Conditions, Link, Tap
from tests.sim.scheduler import Scheduler

FIRST_PORT = 9_000


class SimStream:
    """The broker's end of a link."""

    def __init__(self, link: Link, network: "SimNetwork") -> None:
        self.link = link
        self.network = network
        self.peer = f"client:{link.number}"
        self.is_closed = False

    @property
    def is_readable(self) -> bool:
        """Whether the broker could read something, the end included."""
        return bool(self.link.up.arrived) or self.link.up.has_ended

    @property
    def is_writable(self) -> bool:
        """Whether the broker could write something."""
        return self.link.is_cut or bool(self.link.down.room)

    def receive_into(self, buffer: memoryview) -> int | None:
        """Read the bytes that arrived."""
        data = self.link.up.read(len(buffer))
        if data:
            buffer[: len(data)] = data
            if self.link.transport.is_closed:
                self.network.tap.count("request of a closed connection arrives")
            return len(data)
        return 0 if self.link.up.has_ended else None

    def send(self, pieces: Sequence[memoryview]) -> int:
        """Write as much as there is room for."""
        if self.link.is_cut:
            raise ConnectionResetError(errno.ECONNRESET, "reset by the simulation")
        return self.link.down.write(b"".join(pieces))

    def close(self) -> None:
        """Close the broker's end; what flies to the client still arrives, then the end."""
        if not self.is_closed:
            self.is_closed = True
            self.link.down.end()
            self.link.up.lose()


class SimListener:
    """A broker's port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.waiting: deque[SimStream] = deque()
        self.is_listening = True
        self.is_writable = False

    @property
    def is_readable(self) -> bool:
        """Whether a connection waits."""
        return bool(self.waiting)

    def accept(self) -> SimStream | None:
        """Return the next connection."""
        return self.waiting.popleft() if self.waiting else None

    def pause(self) -> None:
        """Reject connection attempts."""
        self.is_listening = False
        while self.waiting:
            self.waiting.popleft().close()

    def resume(self) -> None:
        """Listen again."""
        self.is_listening = True

    def close(self) -> None:
        """Stop listening for good."""
        self.pause()


class SimNetwork:
    """Every link of a run, and the broker's view of them.

    Args:
        seed: Seed of the run.
        scheduler: Scheduler of the run.
        tap: Hears of the client's side.

    Attributes:
        conditions: How links behave now.
        links: All that were ever made, in order.
        listeners: By port.
        on_link: Called with each new link.
        on_broker_work: Steps the brokers; set by the world.
    """

    def __init__(self, seed: int, scheduler: Scheduler, tap: Tap) -> None:
        self.seed = seed
        self.scheduler = scheduler
        self.tap = tap
        self.conditions = Conditions()
        self.links: list[Link] = []
        self.listeners: dict[int, SimListener] = {}
        self.on_broker_work: Callable[[], object] = lambda: None
        self.on_link: Callable[[Link], object] = lambda _: None
        self._watched: dict[SimStream | SimListener, tuple[Watcher, bool, bool]] = {}

    # The client's side.

    def connect(self, client: int, shortage: Shortage, address: SocketAddress) -> SimTransport:
        """Start a connection; whether it is accepted is decided when the first packet arrives."""
        link = Link(self, len(self.links), client, address.port)
        link.transport = SimTransport(link, self, shortage)
        link.stream = SimStream(link, self)
        self.links.append(link)
        self.on_link(link)
        self.tap.connected(link)
        link.is_lost = self.conditions.is_black_hole
        if not link.is_lost:
            self.scheduler.after(self.conditions.delay_ns, lambda: self._arrive(link))
        return link.transport

    def live_links(self) -> list[Link]:
        """Links that the client has not closed."""
        return [link for link in self.links if not link.transport.is_closed and not link.is_cut]

    def tell_all(self) -> None:
        """Let every client and the brokers look again at what they wait for."""
        for link in self.live_links():
            link.transport.tell()
        self.broker_has_work()

    def heal(self) -> None:
        """Make every link, old or new, an ordinary one; connections that were cut stay cut.

        Bytes of a link that its client has closed arrive now, too: a request that comes seconds
        later would be a fault in the calm.
        """
        healthy = Conditions()
        vars(self.conditions).update(vars(healthy))
        for link in self.live_links():
            if link.up.is_swallowing or link.down.is_swallowing:
                link.cut(loses=False)
            if link.is_lost:
                link.cut(loses=True)
        for link in self.links:
            link.up.thaw()
            link.down.thaw()

    def _arrive(self, link: Link) -> None:
        transport = link.transport
        if transport.is_closed or link.is_cut:
            return
        listener = self.listeners.get(link.port)
        if listener is None or not listener.is_listening or self.conditions.is_refusing:
            rejected = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            transport.connect_error = rejected
        else:
            listener.waiting.append(link.stream)
            transport.is_connected = True
            self.broker_has_work()
        transport.tell()

    # The broker's side.

    def broker_has_work(self) -> None:
        """Step the brokers soon."""
        self.on_broker_work()

    def listen(self, host: str, port: int) -> SimListener:
        """Give out ports from `FIRST_PORT` on."""
        assert host == "127.0.0.1"
        listener = SimListener(port or FIRST_PORT + len(self.listeners))
        self.listeners[listener.port] = listener
        return listener

    def watch(
        self, source: Stream | Listener, watcher: Watcher, *, readable: bool, writable: bool
    ) -> None:
        """Report readiness of a source from now on."""
        assert isinstance(source, SimStream | SimListener)
        if readable or writable:
            self._watched[source] = (watcher, readable, writable)
        else:
            self._watched.pop(source, None)

    def wait(self, timeout_ms: int | None) -> None:
        """Fail: the brokers have no thread here."""
        raise AssertionError(timeout_ms)

    def take_ready(self) -> list[Ready]:
        """Return what can be read or written now."""
        ready = []
        for source, (watcher, wants_read, wants_write) in self._watched.items():
            readable = wants_read and source.is_readable
            writable = wants_write and source.is_writable
            if readable or writable:
                ready.append(Ready(watcher, readable, writable))
        return ready

    def wake(self) -> None:
        """Do nothing: nobody sleeps."""

    def close(self) -> None:
        """Forget everything."""
        self._watched.clear()
