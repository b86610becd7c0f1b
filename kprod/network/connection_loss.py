# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Failures that end a connection: which error it ends with, and when.

Compiled because an application's thread calls `fail_later` while it owns the client's state; only
after a failure, so that `COMPILED_MODULES` does not list it.

Every failure ends in `NodeConnection.drop`.

Thread-safety: the thread that owns the client's state.
"""

from typing import Protocol

from kprod.errors import Disconnected, KprodError
from kprod.guarded_log import guarded_logger
from kprod.model import Node
from kprod.network.channel import Channel
from kprod.network.connection_errors import (
    closed_login_error,
    early_close_error,
    failure_error,
)
from kprod.network.in_flight import InFlightRequests
from kprod.network.node_state import ConnectionState
from kprod.network.selector import EVENT_READ, EVENT_WRITE

_logger = guarded_logger(__name__)

_LOGGING_IN = frozenset({ConnectionState.AUTHENTICATING, ConnectionState.REAUTHENTICATING})


class FailingConnection(Protocol):
    """A connection, as a failure sees it; see `NodeConnection`."""

    node: Node
    requests: InFlightRequests
    channel: Channel | None

    def watch(self, events: int) -> None:
        """Watch the socket for these events."""

    def drop(self, error: KprodError, now_ms: int) -> None:
        """Close the connection because of an error."""


def fail_later(connection: FailingConnection, cause: Exception) -> None:
    """Make the next `serve` drop a connection; the selector reports it immediately.

    For a failure on an application's thread (`DirectPath`), where it must not be reported yet.

    Args:
        connection: The connection; its requests in flight are retried.
        cause: The exception.
    """
    if connection.channel is not None:
        connection.requests.mark_outcomes_unknown()
        connection.channel.fail(cause)
        connection.watch(EVENT_READ | EVENT_WRITE)


def fail_now(connection: FailingConnection, cause: Exception, now_ms: int) -> None:
    """Drop a connection because of a failure in kprod itself; its requests are retried.

    Args:
        connection: The connection.
        cause: The exception.
        now_ms: Monotonic time.
    """
    node = connection.node
    connection.requests.mark_outcomes_unknown()
    connection.drop(failure_error(node, cause), now_ms)
    _logger.error("kprod failed on the connection to %s", node.address, exc_info=cause)


def error_in_state(error: KprodError, state: ConnectionState, *, uses_tls: bool) -> KprodError:
    """Add to an error what the state of its connection says about the cause.

    Args:
        error: The error.
        state: The connection's state when it was lost.
        uses_tls: Whether the connection has TLS.

    Returns:
        The error, or one that names the likely setting.
    """
    if type(error) is not Disconnected:
        return error
    if state is ConnectionState.CHECKING_API_VERSIONS:
        return early_close_error(error, uses_tls=uses_tls)
    return closed_login_error(error) if state in _LOGGING_IN else error
