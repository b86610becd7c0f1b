"""One broker: its port, its connections, and whether it is running, stalled or stopped.

A connection without activity for `connections_max_idle_ms` is closed. If the process has no free
descriptor, no connection is accepted until one is closed, or until `ACCEPT_PAUSE_MS` later;
otherwise the kernel would report the waiting connection again and again.

Invariants.
    Connections are ordered by their last activity.

Thread-safety: the broker's thread.
"""

from collections import OrderedDict

from kprod.broker.client_connection import Connection, Host
from kprod.broker.config import EmbeddedConfig
from kprod.broker.request_frames import FrameReader
from kprod.broker.sockets import Listener, Network
from kprod.guarded_log import guarded_logger
from kprod.model import Node

_logger = guarded_logger(__name__)
_ACCEPTS_PER_TURN = 64
ACCEPT_PAUSE_MS = 250


class EmbeddedBroker:
    """A broker's listener and connections.

    Attributes:
        node_id: The broker's id.
        network: The socket layer.
        is_stalled: Whether it is stalled: connections are open, but nothing is read or written.
        is_running: Whether it accepts connections.
        host: The cluster.
    """

    __slots__ = (
        "_advertised_port",
        "_config",
        "_connections",
        "_is_accepting",
        "_is_idle_watched",
        "_listener",
        "_rack",
        "_scratch",
        "host",
        "is_running",
        "is_stalled",
        "network",
        "node_id",
    )

    def __init__(  # collaborators, by keyword
        self,
        node_id: int,
        *,
        index: int,
        config: EmbeddedConfig,
        network: Network,
        host: Host,
        scratch: memoryview,
    ) -> None:
        """Bind the port and listen.

        Args:
            node_id: The broker's id.
            index: Position in the cluster, from 0; ports are consecutive.
            config: The cluster's settings.
            network: The socket layer.
            host: The cluster.
            scratch: Receive buffer of all connections.

        Raises:
            OSError: The port is not available.
        """
        self.node_id: int = node_id
        self.network: Network = network
        self.is_stalled: bool = False
        self.is_running: bool = True
        self._config = config
        self.host: Host = host
        self._scratch = scratch
        self._connections: OrderedDict[Connection, int] = OrderedDict()
        self._is_accepting = True
        self._is_idle_watched = False
        self._rack: str | None = config.racks[index] if config.racks else None
        self._advertised_port = config.advertised_port and config.advertised_port + index
        self._listener: Listener = network.listen(config.host, config.port and config.port + index)
        self._watch()

    @property
    def node(self) -> Node:
        """The address of this broker."""
        open_to_all = self._config.host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
        host = "127.0.0.1" if open_to_all else self._config.host
        return Node(
            self.node_id,
            self._config.advertised_host or host,
            self._advertised_port or self._listener.port,
            self._rack,
        )

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    def on_ready(self, *, readable: bool, writable: bool) -> None:  # noqa: ARG002 - a Watcher's
        """Accept the waiting connections."""
        if not readable or not self.is_running or self.is_stalled:
            return
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                stream = self._listener.accept()
            except OSError as error:
                self._pause_accepting(error)
                return
            if stream is None:
                return
            if not self._has_place():
                self.host.notices.warn(
                    "connections closed at once (connections_max)",
                    "broker %d closes a connection from %s: %d are open (connections_max)",
                    self.node_id,
                    stream.peer,
                    self.host.connection_count,
                )
                stream.close()
                continue
            reader = FrameReader(self._config.frame_bytes_max, self._scratch)
            connection = Connection(stream, self, reader)
            self._connections[connection] = self.host.now_ms
            self.host.connection_count += 1
            self._watch_idle()

    def _has_place(self) -> bool:
        """Whether another connection may be open; one whose client has left is dropped for it."""
        if self.host.connection_count >= self._config.connections_max and self.host.ended:
            next(iter(self.host.ended)).abort("its client had left, and a new one needs its place")
        return self.host.connection_count < self._config.connections_max

    def touch(self, connection: Connection) -> None:
        """Record activity of a connection."""
        if connection in self._connections:
            self._connections[connection] = self.host.now_ms
            self._connections.move_to_end(connection)

    def forget(self, connection: Connection, reason: str) -> None:
        """Remove a closed connection."""
        if self._connections.pop(connection, None) is None:
            return
        self.host.connection_count -= 1
        _logger.debug("broker %d: %s: %s", self.node_id, connection.peer, reason)
        self._go_on_accepting()

    def stall(self) -> None:
        """Stall, like a process stopped by a signal: connections stay open."""
        self.is_stalled = True
        self._watch()
        for connection in list(self._connections):
            connection.watch()

    def resume(self) -> None:
        """Continue after a stall."""
        self.is_stalled = False
        self._watch()
        for connection in list(self._connections):
            connection.wake_up()

    def stop(self) -> None:
        """Close all connections and reject new ones; the port stays reserved."""
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

    def expire_sessions(self) -> None:
        """Expire all sessions."""
        for connection in self._connections:
            connection.session.expire()

    def disconnect_all(self, reason: str) -> None:
        """Close all connections immediately."""
        for connection in list(self._connections):
            connection.abort(reason)

    def close(self) -> None:
        """Close everything and release the port."""
        self.is_running = False
        self._watch()
        self.disconnect_all("the cluster was closed")
        self._listener.close()

    def _pause_accepting(self, error: OSError) -> None:
        self.host.notices.warn(
            "no connection could be accepted",
            "broker %d can accept no connection (%s), with %d open; it tries again when one of "
            "them is closed, and every %d ms",
            self.node_id,
            error,
            self.host.connection_count,
            ACCEPT_PAUSE_MS,
        )
        self._is_accepting = False
        self._watch()
        self.host.after(ACCEPT_PAUSE_MS, self._go_on_accepting)

    def _go_on_accepting(self) -> None:
        if not self._is_accepting:
            self._is_accepting = True
            self._watch()

    def _watch_idle(self) -> None:
        if not self._is_idle_watched and self._connections:
            self._is_idle_watched = True
            last_active_ms = next(iter(self._connections.values()))
            due_ms = last_active_ms + self._config.connections_max_idle_ms
            self.host.after(max(due_ms - self.host.now_ms, 1), self._close_idle)

    def _close_idle(self) -> None:
        self._is_idle_watched = False
        limit_ms = self._config.connections_max_idle_ms
        while self._connections and not self.is_stalled:
            connection, last_active_ms = next(iter(self._connections.items()))
            if self.host.now_ms - last_active_ms < limit_ms:
                break
            connection.abort(f"nothing came or went for {limit_ms} ms (connections_max_idle_ms)")
        if self.is_stalled:
            for connection in self._connections:
                self._connections[connection] = self.host.now_ms
        self._watch_idle()

    def _watch(self) -> None:
        accepting = self.is_running and not self.is_stalled and self._is_accepting
        self.network.watch(self._listener, self, readable=accepting, writable=False)
