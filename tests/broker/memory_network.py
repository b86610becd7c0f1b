"""A network of byte queues for driving a cluster without sockets or threads."""

from collections import deque
from collections.abc import Sequence

from kprod.broker.sockets import Listener, Ready, Stream, Watcher


class MemoryStream:
    """The broker's end of a connection."""

    def __init__(self, peer: str) -> None:
        """Make an open connection without bytes."""
        self.peer = peer
        self.incoming: bytearray = bytearray()
        self.outgoing: bytearray = bytearray()
        self.receive_limit_bytes = 2**31
        self.send_limit_bytes = 2**31
        self.client_closed = False
        self.closed = False

    @property
    def is_readable(self) -> bool:
        """Whether the broker could read something, the end included."""
        return bool(self.incoming) or self.client_closed

    def receive_into(self, buffer: memoryview) -> int | None:
        """Hand over at most `receive_limit_bytes`."""
        count = min(len(buffer), len(self.incoming), self.receive_limit_bytes)
        if not count:
            return 0 if self.client_closed else None
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def send(self, pieces: Sequence[memoryview]) -> int:
        """Take at most `send_limit_bytes`."""
        if self.client_closed:
            raise ConnectionResetError
        if not self.send_limit_bytes:
            return 0
        taken = b"".join(pieces)[: self.send_limit_bytes]
        self.outgoing += taken
        return len(taken)

    def close(self) -> None:
        """Close the broker's end."""
        self.closed = True


class MemoryListener:
    """A port that exists only here."""

    def __init__(self, port: int) -> None:
        """Listen."""
        self.port = port
        self.waiting: deque[MemoryStream] = deque()
        self.is_listening = True

    def accept(self) -> MemoryStream | None:
        """The next connection."""
        return self.waiting.popleft() if self.waiting else None

    def pause(self) -> None:
        """Accept no connections."""
        self.is_listening = False
        self.waiting.clear()

    def resume(self) -> None:
        """Listen again."""
        self.is_listening = True

    def close(self) -> None:
        """Stop for good."""
        self.is_listening = False


class MemoryNetwork:
    """Listeners and streams in memory."""

    def __init__(self) -> None:
        """Make a network where nothing listens."""
        self.listeners: dict[int, MemoryListener] = {}
        self._watched: dict[Stream | Listener, tuple[Watcher, bool, bool]] = {}

    def listen(self, host: str, port: int) -> MemoryListener:
        """Give out ports from 9000 on."""
        assert host == "127.0.0.1"
        listener = MemoryListener(port or 9_000 + len(self.listeners))
        self.listeners[listener.port] = listener
        return listener

    def watch(
        self, source: Stream | Listener, watcher: Watcher, *, readable: bool, writable: bool
    ) -> None:
        """Keep the interest."""
        if readable or writable:
            self._watched[source] = (watcher, readable, writable)
        else:
            self._watched.pop(source, None)

    def wait(self, timeout_ms: int | None) -> None:
        """Never called: nothing here has a thread."""
        raise AssertionError(timeout_ms)

    def take_ready(self) -> list[Ready]:
        """The connections that can be read or written now."""
        ready = []
        for source, (watcher, wants_read, wants_write) in self._watched.items():
            if isinstance(source, MemoryListener):
                readable = bool(source.waiting)
            else:
                readable = isinstance(source, MemoryStream) and source.is_readable
            if (wants_read and readable) or wants_write:
                ready.append(Ready(watcher, readable and wants_read, wants_write))
        return ready

    def wake(self) -> None:
        """Nobody sleeps."""

    def close(self) -> None:
        """Forget everything."""
        self._watched.clear()

    def connect(self, port: int) -> MemoryStream:
        """Open a connection, as a client would."""
        listener = self.listeners[port]
        if not listener.is_listening:
            raise ConnectionRefusedError(port)
        stream = MemoryStream(f"memory:{port}")
        listener.waiting.append(stream)
        return stream
