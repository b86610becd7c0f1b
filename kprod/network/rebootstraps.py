"""Limits how often a client that reaches no broker starts again from its bootstrap addresses.

If the bootstrap address works and the advertised addresses do not, starting again yields the same
brokers each time. It is then done less and less often.

Thread-safety: the client's thread.
Source: KIP-899 for rebootstrapping.
"""

from collections.abc import Mapping

from kprod.cluster.snapshot import ClusterSnapshot
from kprod.model import Node
from kprod.network.connections import Connections
from kprod.network.node_state import ConnectionState

FAILURES_MIN = 2  # a lost connection, and a failed reconnect
FIRST_PAUSE_MS = 1_000
LAST_PAUSE_MS = 10_000


class Rebootstraps:
    """The rebootstraps of one client."""

    __slots__ = ("_allowed_at_ms", "_nodes", "_pause_ms")

    def __init__(self) -> None:
        """Start with none."""
        self._nodes: Mapping[int, Node] | None = None  # nodes that the latest rebootstrap dropped
        self._allowed_at_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def must_wait(self, nodes: Mapping[int, Node], now_ms: int) -> bool:
        """Whether to keep the known brokers, though none can be reached.

        Args:
            nodes: The nodes of the newest metadata.
            now_ms: Monotonic time.

        Returns:
            True for a while after the same brokers were dropped before.
        """
        return now_ms < self._allowed_at_ms and self._nodes == nodes

    def begin(self, nodes: Mapping[int, Node], now_ms: int) -> bool:
        """Record that the client starts again from its bootstrap addresses.

        Args:
            nodes: The dropped nodes.
            now_ms: Monotonic time.

        Returns:
            True if they differ from those dropped before.
        """
        is_news = self._nodes != nodes
        if is_news:
            self._pause_ms = FIRST_PAUSE_MS
        self._nodes = nodes
        self._allowed_at_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LAST_PAUSE_MS)
        return is_news


def all_failed(snapshot: ClusterSnapshot, connections: Connections, now_ms: int) -> bool:
    """Whether every node of a snapshot has failed and is in back-off.

    Args:
        snapshot: The newest snapshot.
        connections: The client's.
        now_ms: Monotonic time.

    Returns:
        False for bootstrap addresses, which rebootstrapping would not change, and if a node is
        there and rejects the client.
    """
    if snapshot.is_bootstrap:
        return False
    for node_id in snapshot.nodes:
        connection = connections.by_node_id.get(node_id)
        if (
            connection is None
            or not connection.state.is_down
            or connection.state.can_connect(now_ms)
            or connection.state.failures < FAILURES_MIN
            or connection.state.current is ConnectionState.AUTHENTICATION_FAILED
        ):
            return False
    return True
