"""The socket layer of the broker: streams, listeners, and waiting for them.

The engine knows only the three Protocols here, so a simulation can put its own network in their
place. `SocketNetwork` is the real one: non-blocking TCP and a selector.

A stopped broker keeps its port: the listening socket is exchanged for one that is bound and does
not listen, so clients are refused and no other process takes the number meanwhile.

Thread-safety: the thread that steps the cluster, except `wake`, which any thread may call.
"""

import contextlib
import errno
import selectors
import socket
from collections.abc import Sequence
from typing import NamedTuple, Protocol

_BACKLOG = 512
_SEND_BUFFER_BYTES = 1 << 20
# What `accept` fails with when there is no descriptor or memory for another connection.
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
        """The other side's address, for messages."""

    def receive_into(self, buffer: memoryview) -> int | None:
        """Read without blocking: bytes read, 0 at the end of the stream, None when none came."""

    def send(self, pieces: Sequence[memoryview]) -> int:
        """Write at most `PIECES_MAX` pieces; returns how many bytes were taken, maybe 0."""

    def close(self) -> None:
        """Let go; a second call is nothing."""


class Listener(Protocol):
    """A bound port."""

    @property
    def port(self) -> int:
        """The port, the real one when 0 was asked for."""

    def accept(self) -> Stream | None:
        """Take the next connection.

        Returns:
            It, None when there is none.

        Raises:
            OSError: A connection waits, and this process has no descriptor or memory for it.
        """

    def pause(self) -> None:
        """Refuse connections and keep the port."""

    def resume(self) -> None:
        """Listen again."""

    def close(self) -> None:
        """Give the port up."""


class Watcher(Protocol):
    """Is told that a stream or listener is ready."""

    def on_ready(self, *, readable: bool, writable: bool) -> None:
        """Read or write now."""


class Ready(NamedTuple):
    """One report of readiness."""

    watcher: Watcher
    readable: bool
    writable: bool


class Network(Protocol):
    """Makes listeners and reports the ready ones."""

    def listen(self, host: str, port: int) -> Listener:
        """Bind a port; 0 for any."""

    def watch(
        self, source: Stream | Listener, watcher: Watcher, *, readable: bool, writable: bool
    ) -> None:
        """Report readiness of a source from now on; neither readable nor writable ends it."""

    def wait(self, timeout_ms: int | None) -> None:
        """Block until something is ready, `wake` is called or time runs out; None: no limit."""

    def take_ready(self) -> list[Ready]:
        """Return the ready listeners and streams; never blocks."""

    def wake(self) -> None:
        """End a `wait`, from any thread."""

    def close(self) -> None:
        """Let go of everything."""


class SocketStream:
    """A TCP connection."""

    __slots__ = ("peer", "raw")

    def __init__(self, raw: socket.socket, peer: str) -> None:
        """Take over an accepted socket."""
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
        """Write what the kernel takes; raises OSError when the connection is gone."""
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
            port: 0 to 65,535; 0 takes a free one.

        Raises:
            OSError: The port is taken or the address is not this machine's.
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
        """The next connection; one that went away before it was accepted is skipped.

        Returns:
            The connection, None when there is none.

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
        """Exchange the listening socket for one that only holds the port."""
        self.raw.close()
        self.raw = self._bound(self.port)

    def resume(self) -> None:
        """Listen on the held port."""
        self.raw.listen(_BACKLOG)

    def close(self) -> None:
        """Give the port up."""
        self.raw.close()


class SocketNetwork:
    """TCP on this machine, one selector."""

    __slots__ = ("_ready", "_selector", "_wake_in", "_wake_out", "_watching")

    def __init__(self) -> None:
        """Make the selector and its wake-up pair."""
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.settimeout(0)
        self._wake_out.settimeout(0)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._ready: list[Ready] = []
        self._watching: dict[Stream | Listener, tuple[socket.socket, int]] = {}

    def listen(self, host: str, port: int) -> SocketListener:  # a Protocol's method
        """Bind a port; what went wrong is said with its address and a way out."""
        try:
            return SocketListener(host, port)
        except OSError as error:
            what = f"cannot listen at {host}:{port}: {error.strerror or error}"
            way_out = _WAYS_OUT.get(error.errno or 0, "")
            raise OSError(error.errno, f"{what}{way_out}") from error

    def watch(
        self, source: Stream | Listener, watcher: Watcher, *, readable: bool, writable: bool
    ) -> None:
        """Register, change or end the watching of a source."""
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
        """What the last `wait` found, or what a look without waiting finds."""
        if not self._ready:
            self._poll(0)
        ready, self._ready = self._ready, []
        return ready

    def wake(self) -> None:
        """Make the wake-up pair readable; a full pair is awake already."""
        with contextlib.suppress(OSError):
            self._wake_in.send(b"\0")

    def close(self) -> None:
        """Close the selector and its own sockets."""
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
