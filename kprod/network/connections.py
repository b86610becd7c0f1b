# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The connections of one client by node, and the choice of a node.

Holds one `NodeConnection` for each requested node, says when it can be connected to or sent to, and
chooses a node for requests that any node can answer.

Thread-safety: the client's thread; `requests_in_flight` from any thread.
Source: leastLoadedNode and pollDelayMs of Kafka's NetworkClient (clients 4.3.1).
"""

from kprod.cluster.metadata import Metadata
from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import KprodError
from kprod.model import Node
from kprod.network.connection import NodeConnection
from kprod.network.connection_context import ConnectionContext
from kprod.network.negotiation import BrokerFeatures
from kprod.network.resolver import Resolution

# Ranks of nodes for a request that any can answer; the lowest is chosen.
_SENDABLE = 0
_CONNECTING = 1
_CONNECTABLE = 2


class Connections:
    """The connections of one client.

    Attributes:
        by_node_id: All connections; that of a node which has left the cluster is removed when it is
            down.
    """

    def __init__(self, context: ConnectionContext, metadata: Metadata) -> None:
        """Make an empty collection.

        Args:
            context: The state that connections share.
            metadata: Its snapshot has the nodes.
        """
        self._context = context
        self._metadata = metadata
        self.by_node_id: dict[int, NodeConnection] = {}

    def of(self, node: Node) -> NodeConnection:
        """Return a node's connection; creates it if necessary.

        Args:
            node: The node from the newest snapshot; a connection that is down and has another
                address is replaced.

        Returns:
            The connection, in any state.
        """
        connection = self.by_node_id.get(node.node_id)
        if connection is None or (connection.state.is_down and connection.node != node):
            self._forget_gone_nodes()
            connection = self.by_node_id[node.node_id] = NodeConnection(node, self._context)
        return connection

    def connect_delay_ms(self, node: Node, now_ms: int) -> int:
        """Return how long to wait before a connection to a node may be opened.

        Args:
            node: Any node.
            now_ms: Monotonic time.

        Returns:
            Remaining back-off, at least 0; `NEVER_MS` if it is connected or connecting.
        """
        attempts = self._context.attempts
        wait_ms = attempts.wait_ms(node, now_ms)
        connection = self.by_node_id.get(node.node_id)
        if connection is None or connection.node != node:
            return wait_ms
        state = connection.state
        return max(wait_ms, state.retry_at_ms - now_ms) if state.is_down else NEVER_MS

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """Return for how long `ready` will return False, unless an event comes first.

        Args:
            node: Any node.
            now_ms: Monotonic time.

        Returns:
            Remaining back-off or throttle time; 0 if a request may be sent or an attempt may start;
            `NEVER_MS` if only an event can change it, which ends `poll`.
        """
        connection = self.by_node_id.get(node.node_id)
        if connection is None or connection.state.is_down:
            return self.connect_delay_ms(node, now_ms)
        state = connection.state
        if state.is_ready and state.throttled_until_ms > now_ms:
            return state.throttled_until_ms - now_ms
        return 0 if connection.can_send(now_ms) else NEVER_MS

    def next_attempt_in_ms(self, now_ms: int) -> int:
        """Return how long to wait until any node of the snapshot can be connected to or sent to.

        Args:
            now_ms: Monotonic time.

        Returns:
            The minimum of all `poll_delay_ms`.
        """
        nodes = self._metadata.snapshot.nodes.values()
        return min((self.poll_delay_ms(node, now_ms) for node in nodes), default=NEVER_MS)

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Choose a node for a request that any node can answer.

        Args:
            now_ms: Monotonic time.

        Returns:
            The connected node with fewest requests in flight; else a connecting one; else the one
            whose last attempt is longest ago. None if all are throttled, at their limits, or in
            back-off.
        """
        nodes = list(self._metadata.snapshot.nodes.values())
        start = self._context.rng.randrange(len(nodes)) if nodes else 0
        chosen: Node | None = None
        least: tuple[int, int] | None = None
        for node in nodes[start:] + nodes[:start]:
            rank = self._rank(node, now_ms)
            if rank is not None and (least is None or rank < least):
                chosen, least = node, rank
        return chosen

    def _rank(self, node: Node, now_ms: int) -> tuple[int, int] | None:
        """Rank a node for a request that any can answer, lowest first; None if it is unsuitable."""
        connection = self.by_node_id.get(node.node_id)
        if connection is None or connection.state.is_down:
            if self.connect_delay_ms(node, now_ms):
                return None
            return _CONNECTABLE, -1 if connection is None else connection.state.last_attempt_ms
        if connection.can_send(now_ms):
            return _SENDABLE, len(connection.requests)
        if connection.state.must_log_in_again(now_ms):
            return _CONNECTING, 0
        return None if connection.state.is_ready else (_CONNECTING, 0)

    def features(self, node_id: int) -> BrokerFeatures | None:
        """Return the versions and features that a node reported on connection.

        Args:
            node_id: Id of any node.

        Returns:
            The versions and finalized features; None while not connected.
        """
        connection = self.by_node_id.get(node_id)
        return None if connection is None else connection.features

    def in_flight_count(self, node_id: int) -> int:
        """Return how many requests to a node were sent and are not complete.

        Args:
            node_id: Id of any node.

        Returns:
            At least 0; the client's own requests count.
        """
        connection = self.by_node_id.get(node_id)
        return 0 if connection is None else len(connection.requests)

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were sent and are not complete; any thread."""
        return sum(len(connection.requests) for connection in list(self.by_node_id.values()))

    @property
    def is_any_ready(self) -> bool:
        """Whether some node is connected."""
        return any(connection.state.is_connected for connection in self.by_node_id.values())

    def on_resolution(self, resolution: Resolution, now_ms: int) -> None:
        """Pass a resolved name to every connection that waits for it.

        Args:
            resolution: The result for a host and port.
            now_ms: Monotonic time.
        """
        for connection in list(self.by_node_id.values()):
            if (connection.node.host, connection.node.port) == resolution[:2]:
                connection.on_resolution(resolution, now_ms)

    def drop_all(self, error: KprodError, now_ms: int) -> None:
        """Drop every connection and attempt.

        Args:
            error: The reason.
            now_ms: Monotonic time.
        """
        for connection in self.by_node_id.values():
            connection.drop(error, now_ms)

    def close_after_fork(self) -> None:
        """Close a forked child's copies of the sockets; complete no request and send nothing."""
        for connection in self.by_node_id.values():
            connection.close_after_fork()
        self.by_node_id = {}

    def _forget_gone_nodes(self) -> None:
        """Remove the connections of nodes that left the cluster, to bound their number."""
        nodes = self._metadata.snapshot.nodes
        for node_id, connection in list(self.by_node_id.items()):
            if connection.state.is_down and node_id not in nodes:
                del self.by_node_id[node_id]
