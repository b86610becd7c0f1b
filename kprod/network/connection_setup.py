"""Sets up a connection: resolves the name, connects a socket, performs the TLS handshake.

    resolve → connect a socket → TLS handshake, if there is TLS → the owner continues

An attempt tries the addresses of a name one after another while each fails immediately. An address
that does not respond ends the attempt at the set-up deadline, and the next attempt continues with
the next address. One deadline covers all steps.

The direct path does not use this code, since it needs an established connection.

Thread-safety: one thread.
Source: Kafka's NetworkClient and ClusterConnectionStates (clients 4.3.1); KIP-302, KIP-601.
"""

import functools
from typing import TYPE_CHECKING, Protocol

from kprod.error_text import error_text
from kprod.errors import ConnectionFailed, KprodError
from kprod.model import Node
from kprod.network.address_cursor import AddressCursor, SocketAddress, literal_address
from kprod.network.channel import Channel
from kprod.network.connection_context import ConnectionContext
from kprod.network.connection_errors import connect_error, reason_of, setup_timeout_error
from kprod.network.node_state import ConnectionState, NodeState
from kprod.network.resolver import Resolution
from kprod.timer.timer import TimerTask

if TYPE_CHECKING:
    from kprod.network.tls_transport import TlsTransport


class ConnectionOwner(Protocol):
    """The connection that is being set up.

    Attributes:
        node: The node to connect to.
        state: The connection's state.
        channel: The channel of the current socket; None without a socket.
    """

    node: Node
    state: NodeState
    channel: Channel | None

    def attach(self, channel: Channel) -> None:
        """Use a connecting socket, and watch it."""

    def release_channel(self) -> None:
        """Close the socket, if there is one."""

    def watch(self, events: int) -> None:
        """Watch the socket for these events."""

    def begin_check(self, now_ms: int) -> None:
        """Continue: the connection is established."""

    def drop(self, error: KprodError, now_ms: int) -> None:
        """Abort the attempt because of an error."""


class ConnectionSetup:
    """Sets up one node's connection, again after each loss.

    Attributes:
        tls: The TLS state of the current socket; None without TLS.
    """

    __slots__ = ("_context", "_cursor", "_owner", "_reasons", "_timeout", "tls")

    def __init__(self, owner: ConnectionOwner, context: ConnectionContext) -> None:
        """Create the set-up of a connection, without addresses.

        Args:
            owner: Called with results.
            context: The state that the client's connections share.
        """
        self._owner = owner
        self._context = context
        self._cursor = AddressCursor()
        self._reasons: dict[str, str] = {}  # why each address failed in this attempt
        self._timeout: TimerTask | None = None
        self.tls: TlsTransport | None = None

    @property
    def address(self) -> SocketAddress | None:
        """The address in use, or the next to try; None before the name is resolved."""
        return self._cursor.current

    def begin(self, allowed_ms: int, now_ms: int) -> None:
        """Start an attempt.

        Args:
            allowed_ms: Time limit for the whole set-up.
            now_ms: Monotonic time.
        """
        self._reasons.clear()
        self._timeout = TimerTask(functools.partial(self._on_timeout, allowed_ms))
        self._context.timer.add_at(now_ms + allowed_ms, self._timeout)
        if self._cursor.current is not None:
            self._open(now_ms)
            return
        node = self._owner.node
        fault = self._filter_fault(node)
        if fault is not None:
            self._owner.drop(ConnectionFailed(fault), now_ms)
            return
        literal = literal_address(node.host, node.port)
        if literal is None:
            self._context.io.resolver.request(node.host, node.port)
            return
        self._cursor.accept([literal])
        self._open(now_ms)

    def on_resolution(self, resolution: Resolution, now_ms: int) -> None:
        """Continue with the resolved addresses, if the connection waits for them.

        Args:
            resolution: The result for this node's host and port.
            now_ms: Monotonic time.
        """
        if (
            self._owner.state.current is not ConnectionState.CONNECTING
            or self._owner.channel is not None
            or self._cursor.current is not None
        ):
            return
        if resolution.error is not None:
            self._owner.drop(ConnectionFailed(resolution.error), now_ms)
            return
        self._cursor.accept(resolution.addresses)
        self._open(now_ms)

    def go_on(self, channel: Channel, now_ms: int) -> None:
        """Continue when the socket is usable.

        Args:
            channel: The owner's channel.
            now_ms: Monotonic time.

        Raises:
            KprodError: The TLS handshake failed.
            OSError: The connection is lost.
        """
        if self._owner.state.current is ConnectionState.CONNECTING:
            self._finish_connect(channel, now_ms)
            return
        assert self.tls is not None  # noqa: S101 - the state is TLS's
        self._shake_hands(self.tls, now_ms)

    def stop_clock(self) -> None:
        """Cancel the deadline: the connection is established or dropped."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def end(self, *, tries_next: bool) -> None:
        """Record the end of an attempt or a connection.

        Args:
            tries_next: Whether the next attempt uses the name's next address.
        """
        if tries_next:
            self._cursor.advance()
        else:
            self._cursor.forget()

    def _filter_fault(self, node: Node) -> str | None:
        """Ask the application's filter for an advertised address; returns the error's text."""
        is_allowed = self._context.settings.address_filter
        if is_allowed is None or node.node_id < 0:  # the application itself has named it
            return None
        try:
            found = is_allowed(node.host, node.port)
            is_plain = not hasattr(found, "__await__")
            if is_plain and found:
                return None
        except KeyboardInterrupt:  # Ctrl-C, in a client of the caller's own thread
            raise
        except BaseException as error:  # noqa: BLE001 - not even SystemExit may end the thread
            return f"address_filter raised {error_text(error)} for {node.address}"
        if not is_plain:
            return f"address_filter must return its result for {node.address}, not an awaitable"
        return f"the cluster advertises {node.address}, which address_filter does not allow"

    def _open(self, now_ms: int) -> None:
        """Connect a socket to the current address, or to the next that does not fail at once."""
        node = self._owner.node
        while (address := self._cursor.current) is not None:
            try:
                below = self._context.io.connect(address)
            except (OSError, OverflowError, ValueError) as error:
                self._reasons[str(address)] = reason_of(error)
                if self._cursor.advance():
                    continue
                break
            self.tls = self._context.security.encrypted(below, node)
            self._owner.attach(Channel(self.tls or below, self._context.security.frame_reader()))
            return
        self._owner.drop(connect_error(node, self._reasons), now_ms)

    def _finish_connect(self, channel: Channel, now_ms: int) -> None:
        try:
            channel.transport.finish_connect()
        except OSError as error:
            self._reasons[str(self._cursor.current)] = reason_of(error)
            self._owner.release_channel()
            if self._cursor.advance():
                self._open(now_ms)
            else:
                self._owner.drop(connect_error(self._owner.node, self._reasons), now_ms)
            return
        if self.tls is None:
            self._owner.begin_check(now_ms)
            return
        self._owner.state.begin_tls()
        self._shake_hands(self.tls, now_ms)

    def _shake_hands(self, tls: "TlsTransport", now_ms: int) -> None:
        events = tls.shake_hands(self._context.receive_buffer)
        if events:
            self._owner.watch(events)
        else:
            self._owner.begin_check(now_ms)

    def _on_timeout(self, allowed_ms: int) -> None:
        is_in_tls = self._owner.state.current is ConnectionState.TLS_HANDSHAKE
        address = self._cursor.current
        error = setup_timeout_error(self._owner.node, address, allowed_ms, is_in_tls=is_in_tls)
        self._owner.drop(error, self._context.timer.now_ms)
