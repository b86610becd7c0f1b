"""The lines that an operator reads about one connection.

Not on the direct path: the I/O thread sets up and ends connections.

Thread-safety: one thread.
"""

from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import KprodError
from kprod.metrics.state_log import Event
from kprod.model import Node
from kprod.network.address_cursor import SocketAddress
from kprod.network.connection_context import ConnectionContext
from kprod.network.node_state import NodeState
from kprod.network.throttle import THROTTLE_MS_MAX


class ConnectionLog:
    """The log lines of one node's connection."""

    __slots__ = ("_context", "_node", "_state")

    def __init__(self, node: Node, state: NodeState, context: ConnectionContext) -> None:
        """Start without a line.

        Args:
            node: The node.
            state: The connection's state.
            context: The state that the client's connections share.
        """
        self._node = node
        self._state = state
        self._context = context

    def connected(self, used: SocketAddress | None, tls: str | None, now_ms: int) -> None:
        """Log that requests may be sent.

        Args:
            used: The socket's address.
            tls: Description of the TLS connection; None without TLS.
            now_ms: Monotonic time.
        """
        fields: dict[str, object] = {} if tls is None else {"tls": tls}
        self._note(Event.CONNECTED, used=str(used), **fields, **self._login_fields(now_ms))

    def logged_in_again(self, now_ms: int) -> None:
        """Log that another login has succeeded."""
        self._note(Event.REAUTHENTICATED, **self._login_fields(now_ms))

    def disconnected(self, reason: KprodError, failures: int) -> None:
        """Log the 1st, 2nd, 4th, 8th failure and so on, and no other.

        Args:
            reason: The error.
            failures: Number of consecutive failures.
        """
        if failures & (failures - 1) == 0:
            more = {"times_in_a_row": failures} if failures > 1 else {}
            self._note(Event.DISCONNECTED, reason=reason, **more)

    def throttled(self, asked_ms: int) -> None:
        """Log that a broker asks for a longer throttle than it gets."""
        self._note(Event.THROTTLED, asked_ms=asked_ms, kept_ms=THROTTLE_MS_MAX)

    def idle_closed(self) -> None:
        """Log that the connection is closed, since nothing uses it."""
        self._note(Event.IDLE_CLOSED)

    def _login_fields(self, now_ms: int) -> dict[str, object]:
        fields: dict[str, object] = {}
        principal = self._context.security.principal
        if principal:
            fields["principal"] = principal
        if self._state.send_until_ms < NEVER_MS:
            fields["next_login_in_ms"] = self._state.send_until_ms - now_ms
        return fields

    def _note(self, event: Event, **fields: object) -> None:
        node = self._node
        self._context.state_log.note(event, node=node.node_id, address=node.address, **fields)
