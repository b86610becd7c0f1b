"""The socket layer of the broker: streams, listeners, and waiting for events.

The engine uses only the three protocols here, so a simulation can replace the network.
`SocketNetwork` is the real one: non-blocking TCP and a selector.

A stopped broker keeps its port: the listening socket is replaced by one that is bound and does not
listen, so that clients are rejected and no other process gets the port.

Thread-safety: the stepping thread; `wakeup` from any thread.
"""

import contextlib
import errno
import selectors
import socket
from collections.abc import Sequence
from typing import NamedTuple, Protocol

_BACKLOG = 512
_SEND_BUFFER_BYTES = 1 << 20
# The errors of `accept` when there is no descriptor or memory for another connection.
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# IOV_MAX is 1024 on Linux and macOS.
PIECES_MAX = 1_024

_WAYS_OUT = {
    errno.EADDRINUSE: "; another process has it: choose another port, or 0 for a free one",
    errno.EACCES: "; choose a port above 1,023, or 0 for a free one",
    errno.EADDRNOTAVAIL: "; choose an address of this machine, such as 127.0.0.1",
}


class Stream(Protocol):
    """One accepted connection."""

    @property
    def peer(self) -> str:
        """The client's address, for texts."""

    def receive_into(self, buffer: memoryview) -> int | None:
        """Read without blocking: a number of bytes, 0 at the end, None if there are none."""

    def send(self, pieces: Sequence[memoryview]) -> int:
        """Write at most `PIECES_MAX` pieces; returns the number of bytes accepted, perhaps 0."""

    def close(self) -> None:
        """Close the stream; idempotent."""


class Listener(Protocol):
    """A bound port."""

    @property
    def port(self) -> int:
        """The port number; the actual one if 0 was requested."""

    def accept(self) -> Stream | None:
        """Accept the next connection.

        Returns:
            The connection; None if there is none.

        Raises:
            OSError: There is no descriptor or memory for a waiting connection.
        """

    def pause(self) -> None:
        """Reject connections, but keep the port."""

    def resume(self) -> None:
        """Listen again."""

    def close(self) -> None:
        """Release the port."""


class Watcher(Protocol):
    """Called when a stream or listener is ready."""

    def on_ready(self, *, readable: bool, writable: bool) -> None:
        """Read or write."""


class Ready(NamedTuple):
    """A stream or listener that is ready."""

    watcher: Watcher
    readable: bool
    writable: bool


class Network(Protocol):
    """Creates listeners and reports ready streams and listeners."""

    def listen(self, host: str, port: int) -> Listener:
        """Bind a port; 0 for any."""

    def watch(
        self, source: Stream | Listener, watcher: Watcher, *, readable: bool, writable: bool
    ) -> None:
        """Watch a stream or listener for events; with neither event, stop watching it."""

    def wait(self, timeout_ms: int | None) -> None:
        """Block until something is ready, `wake` is called, or time is over; None for no limit."""

    def take_ready(self) -> list[Ready]:
        """Return the ready listeners and streams without blocking."""

    def wake(self) -> None:
        """End a `wait`; callable from any thread."""

    def close(self) -> None:
        """Close everything."""


class SocketStream:
    """A TCP connection."""

    __slots__ = ("peer", "raw")

    def __init__(self, raw: socket.socket, peer: str) -> None:
        """Use an accepted socket."""
        raw.settimeout(0)
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.raw: socket.socket = raw
        self.peer: str = peer

    def receive_into(self, buffer: memoryview) -> int | None:
        """Read without blocking; a reset connection counts as ended."""
        try:
            return self.raw.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return 0

    def send(self, pieces: Sequence[memoryview]) -> int:
        """Write as much as the kernel accepts; raises OSError if the connection is lost."""
        try:
            return self.raw.sendmsg(pieces)
        except (BlockingIOError, InterruptedError):
            return 0

    def close(self) -> None:
        """Close the socket."""
        self.raw.close()


class SocketListener:
    """A TCP port."""

    __slots__ = ("_family", "_host", "port", "raw")

    def __init__(self, host: str, port: int) -> None:
        """Bind and listen.

        Args:
            host: Address or name to bind.
            port: 0 to 65,535; 0 for any free port.

        Raises:
            OSError: The port is in use, or the address is not local.
        """
        self._host = host
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.raw: socket.socket = self._bound(port)
        self.port: int = self.raw.getsockname()[1]
        self.raw.listen(_BACKLOG)

    def _bound(self, port: int) -> socket.socket:
        raw = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            raw.settimeout(0)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            raw.bind((self._host, port))
        except BaseException:
            raw.close()
            raise
        return raw

    def accept(self) -> SocketStream | None:
        """Accept the next connection; one that was closed meanwhile is skipped.

        Returns:
            The connection; None if there is none.

        Raises:
            OSError: There is no descriptor or memory for it.
        """
        try:
            raw, address = self.raw.accept()
        except OSError as error:
            if error.errno in _OUT_OF_RESOURCES:
                raise
            return None
        return SocketStream(raw, f"{address[0]}:{address[1]}")

    def pause(self) -> None:
        """Replace the listening socket by one that only reserves the port."""
        self.raw.close()
        self.raw = self._bound(self.port)

    def resume(self) -> None:
        """Listen on the reserved port."""
        self.raw.listen(_BACKLOG)

    def close(self) -> None:
        """Release the port."""
        self.raw.close()


class SocketNetwork:
    """TCP on this machine, with one selector."""

    __slots__ = ("_ready", "_selector", "_wake_in", "_wake_out", "_watching")

    def __init__(self) -> None:
        """Create the selector and its wakeup socket pair."""
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.settimeout(0)
        self._wake_out.settimeout(0)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._ready: list[Ready] = []
        self._watching: dict[Stream | Listener, tuple[socket.socket, int]] = {}

    def listen(self, host: str, port: int) -> SocketListener:  # a Protocol's method
        """Bind a port; an error names the address and a remedy."""
        try:
            return SocketListener(host, port)
        except OSError as error:
            what = f"cannot listen at {host}:{port}: {error.strerror or error}"
            way_out = _WAYS_OUT.get(error.errno or 0, "")
            raise OSError(error.errno, f"{what}{way_out}") from error

    def watch(
        self, source: Stream | Listener, watcher: Watcher, *, readable: bool, writable: bool
    ) -> None:
        """Start, change or stop watching a source."""
        wanted = (selectors.EVENT_READ if readable else 0) | (
            selectors.EVENT_WRITE if writable else 0
        )
        raw, present = self._watching.get(source, (None, 0))
        if wanted == present:
            return
        if raw is None:
            raw = source.raw  # type: ignore[union-attr]  # only this network's own sources come here
            self._selector.register(raw, wanted, watcher)
        elif wanted == 0:
            self._selector.unregister(raw)
            del self._watching[source]
            return
        else:
            self._selector.modify(raw, wanted, watcher)
        self._watching[source] = (raw, wanted)

    def wait(self, timeout_ms: int | None) -> None:
        """Block in the selector."""
        if not self._ready:
            self._poll(None if timeout_ms is None else timeout_ms / 1_000)

    def take_ready(self) -> list[Ready]:
        """Return the result of the last `wait`, or poll without waiting."""
        if not self._ready:
            self._poll(0)
        ready, self._ready = self._ready, []
        return ready

    def wake(self) -> None:
        """Make the wakeup pair readable; if it is full, the thread is awake already."""
        with contextlib.suppress(OSError):
            self._wake_in.send(b"\0")

    def close(self) -> None:
        """Close the selector and the wakeup pair."""
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _poll(self, timeout_s: float | None) -> None:
        for key, events in self._selector.select(timeout_s):
            if key.data is None:
                self._drain_wake_ups()
                continue
            readable = bool(events & selectors.EVENT_READ)
            self._ready.append(Ready(key.data, readable, bool(events & selectors.EVENT_WRITE)))

    def _drain_wake_ups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_out.recv(4_096):
                pass
