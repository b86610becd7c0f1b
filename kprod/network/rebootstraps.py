"""How often a client that reaches no broker begins again from its configuration.

Where the bootstrap address works and what it advertises does not, to begin again brings the same
brokers each time. Then it is done less and less often.

Thread-safety: one thread, the client's.
Source: KIP-899 for beginning again.
"""

from collections.abc import Mapping

from kprod.cluster.snapshot import ClusterSnapshot
from kprod.model import Node
from kprod.network.connections import Connections

FAILURES_MIN = 2  # the loss of a connection, and a reconnect that failed too
FIRST_PAUSE_MS = 1_000
LAST_PAUSE_MS = 10_000


class Rebootstraps:
    """The rebootstraps of one client."""

    __slots__ = ("_allowed_at_ms", "_nodes", "_pause_ms")

    def __init__(self) -> None:
        """Start with none."""
        self._nodes: Mapping[int, Node] | None = None  # that the newest one gave up
        self._allowed_at_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def must_wait(self, nodes: Mapping[int, Node], now_ms: int) -> bool:
        """Whether to keep known brokers, though none can be reached.

        Args:
            nodes: Those of the newest answer.
            now_ms: Monotonic time.

        Returns:
            True for a while after the same brokers were given up before.
        """
        return now_ms < self._allowed_at_ms and self._nodes == nodes

    def begin(self, nodes: Mapping[int, Node], now_ms: int) -> bool:
        """Note that the client begins again.

        Args:
            nodes: That are given up.
            now_ms: Monotonic time.

        Returns:
            Whether they are others than the last time.
        """
        is_news = self._nodes != nodes
        if is_news:
            self._pause_ms = FIRST_PAUSE_MS
        self._nodes = nodes
        self._allowed_at_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LAST_PAUSE_MS)
        return is_news


def all_failed(snapshot: ClusterSnapshot, connections: Connections, now_ms: int) -> bool:
    """Whether every node of a snapshot has failed, and must not be connected to yet.

    Args:
        snapshot: The newest.
        connections: The client's.
        now_ms: Monotonic time.

    Returns:
        False for bootstrap addresses, which there is nothing to give up for.
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
        ):
            return False
    return True
