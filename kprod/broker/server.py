"""One broker: its port, its connections, and whether it runs, stands still or is stopped.

Thread-safety: the broker's thread.
"""

from collections.abc import Callable
from typing import Protocol

from kprod.broker.config import EmbeddedConfig
from kprod.broker.connection import Connection
from kprod.broker.framing import FrameReader
from kprod.broker.sockets import Listener, Network
from kprod.guarded_log import guarded_logger
from kprod.model import Node

_LOG = guarded_logger(__name__)
_ACCEPTS_PER_TURN = 64


class Host(Protocol):
    """What a broker needs of the cluster that it runs in."""

    connection_count: int

    def take_request(self, frame: bytearray, connection: Connection, node_id: int) -> None:
        """Handle one request."""

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Run something later."""

    def report(self, error: Exception) -> None:
        """Take note of a failure of the broker's own."""


class EmbeddedBroker:
    """A broker's listener and connections.

    Attributes:
        node_id: Its id.
        network: The socket layer.
        is_stalled: It stands still: connections are open and nothing is read or written.
        is_running: It listens.
    """

    __slots__ = (
        "_config",
        "_connections",
        "_host",
        "_listener",
        "_scratch",
        "is_running",
        "is_stalled",
        "network",
        "node_id",
    )

    def __init__(  # collaborators, by keyword
        self,
        node_id: int,
        *,
        config: EmbeddedConfig,
        network: Network,
        host: Host,
        scratch: memoryview,
    ) -> None:
        """Bind the port and listen.

        Raises:
            OSError: The port cannot be had.
        """
        self.node_id = node_id
        self.network = network
        self.is_stalled = False
        self.is_running = True
        self._config = config
        self._host = host
        self._scratch = scratch
        self._connections: set[Connection] = set()
        port = config.port + node_id if config.port else 0
        self._listener: Listener = network.listen(config.host, port)
        self._watch()

    @property
    def node(self) -> Node:
        """Where clients find this broker."""
        open_to_all = self._config.host in {"0.0.0.0", "::"}  # noqa: S104  # compared, not bound
        host = "127.0.0.1" if open_to_all else self._config.host
        return Node(self.node_id, host, self._listener.port)

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    def on_ready(self, *, readable: bool, writable: bool) -> None:  # noqa: ARG002  # a Watcher's
        """Accept what waits."""
        if not readable or not self.is_running or self.is_stalled:
            return
        for _ in range(_ACCEPTS_PER_TURN):
            stream = self._listener.accept()
            if stream is None:
                return
            if self._host.connection_count >= self._config.connections_max:
                _LOG.warning(
                    "broker %d closes a connection from %s: %d are open (connections_max)",
                    self.node_id,
                    stream.peer,
                    self._host.connection_count,
                )
                stream.close()
                continue
            reader = FrameReader(self._config.frame_bytes_max, self._scratch)
            self._connections.add(Connection(stream, self, reader))
            self._host.connection_count += 1

    def take_request(self, frame: bytearray, connection: Connection) -> None:
        """Hand a request to the cluster."""
        self._host.take_request(frame, connection, self.node_id)

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Run something later."""
        self._host.after(delay_ms, action)

    def report(self, error: Exception) -> None:
        """Take note of a failure of the broker's own."""
        self._host.report(error)

    def forget(self, connection: Connection, reason: str) -> None:
        """Take a closed connection out."""
        if connection in self._connections:
            self._connections.discard(connection)
            self._host.connection_count -= 1
            _LOG.debug("broker %d: %s: %s", self.node_id, connection.peer, reason)

    def stall(self) -> None:
        """Stand still, as a process that was stopped by a signal: connections stay open."""
        self.is_stalled = True
        self._watch()
        for connection in list(self._connections):
            connection.watch()

    def resume(self) -> None:
        """Go on."""
        self.is_stalled = False
        self._watch()
        for connection in list(self._connections):
            connection.wake_up()

    def stop(self) -> None:
        """Close every connection and refuse new ones; the port is kept."""
        if not self.is_running:
            return
        self.is_running = False
        self.is_stalled = False
        self._watch()
        self._listener.pause()
        self.disconnect_all("the broker was stopped")

    def start(self) -> None:
        """Listen again."""
        if not self.is_running:
            self._listener.resume()
            self.is_running = True
            self._watch()

    def disconnect_all(self, reason: str) -> None:
        """Close every connection at once."""
        for connection in list(self._connections):
            connection.abort(reason)

    def close(self) -> None:
        """Close everything and give up the port."""
        self.is_running = False
        self._watch()
        self.disconnect_all("the cluster was closed")
        self._listener.close()

    def _watch(self) -> None:
        accepting = self.is_running and not self.is_stalled
        self.network.watch(self._listener, self, readable=accepting, writable=False)
