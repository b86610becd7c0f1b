"""The handshake of one connection, and the repeated login before a session expires.

A broker may limit the lifetime of a login (KIP-368). The client then logs in again on the same
connection, after the requests in flight, and only when it has another request to send: at 85 to 95
% of the lifetime the connection accepts no further request until the new login is complete.
Responses to earlier requests are processed as usual, since a broker responds in order.

Invariants.
    At most one request of a handshake is in flight. During a repeated login no other request is
    sent. A handshake ends within `request_timeout_ms`, including the creation of its messages.

Not on the direct path: the sender handles a connection that must log in again.

Thread-safety: one thread.
Source: Kafka's SaslClientAuthenticator and KafkaChannel (clients 4.3.1); KIP-368.
"""

import functools
from typing import TYPE_CHECKING, Protocol

from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.errors import AuthenticationFailed, KprodError
from kprod.model import Node
from kprod.network.address_cursor import SocketAddress
from kprod.network.client_request import ClientRequest
from kprod.network.connection_context import ConnectionContext
from kprod.network.handshake import Handshake, Progress
from kprod.network.node_state import ConnectionState, NodeState
from kprod.timer.timer import TimerTask

if TYPE_CHECKING:
    from kprod.network.negotiation import BrokerFeatures

LOGIN_AGAIN_SHARE = (0.85, 0.95)  # of the lifetime; Kafka's
LOGIN_AGAIN_MS_MIN = 1_100  # a broker rejects another login that comes sooner
_HELD_BACK_MS = 1_000  # in the last second of a session nothing is sent without a new login
_ASK_AGAIN_MS = 1_000


class SessionOwner(Protocol):
    """The connection, as the session uses it."""

    node: Node
    state: NodeState

    def send(self, request: ClientRequest, version: int, now_ms: int) -> None:
        """Send a request."""

    def drop(self, error: KprodError, now_ms: int) -> None:
        """Close the connection because of an error."""

    def on_let_in(self, now_ms: int, *, is_again: bool) -> None:
        """Called when requests may be sent."""


class NodeSession:
    """The handshakes of one node's connections.

    Attributes:
        handshake: The latest handshake; None before the first.
    """

    __slots__ = (
        "_address",
        "_asked",
        "_began_ms",
        "_context",
        "_ends_ms",
        "_owner",
        "_timeout",
        "_token_wait",
        "handshake",
    )

    def __init__(self, owner: SessionOwner, context: ConnectionContext) -> None:
        """Start without a connection.

        Args:
            owner: Sends the requests.
            context: The state that the client's connections share.
        """
        self._owner = owner
        self._context = context
        self._address: SocketAddress | None = None
        self.handshake: Handshake | None = None
        self._asked: ClientRequest | None = None
        self._timeout: TimerTask | None = None
        self._token_wait: TimerTask | None = None  # another login waits for a token
        self._began_ms = 0
        self._ends_ms = NEVER_MS  # end of the session, as announced by the broker

    @property
    def features(self) -> "BrokerFeatures | None":
        """The broker's versions and features; None before the handshake."""
        return None if self.handshake is None else self.handshake.api_versions.features

    def awaits(self, request: ClientRequest) -> bool:
        """Whether a request belongs to this handshake.

        Args:
            request: A request in flight.

        Returns:
            True for the handshake's latest request.
        """
        return request is self._asked

    def begin(self, address: SocketAddress | None, now_ms: int) -> None:
        """Start the handshake of a new connection.

        Args:
            address: The address that the connection uses.
            now_ms: Monotonic time.

        Raises:
            AuthenticationFailed: A password would be sent unencrypted.
        """
        self._address = address
        self._began_ms = now_ms
        self.handshake = self._context.security.handshake(self._owner.node, address)
        self.go_on(now_ms)

    def begin_again(self, now_ms: int) -> None:
        """Start another login if a token is available; otherwise fetch one and retry later.

        A session that is over needs the login in any case: it waits for the token like the first
        login, and its failure says why there is none.

        Args:
            now_ms: Monotonic time.

        Raises:
            AuthenticationFailed: A password would be sent unencrypted.
        """
        state, security = self._owner.state, self._context.security
        assert self.handshake is not None  # noqa: S101 - the connection stands
        if now_ms < self._ends_ms and not self._has_fresh_token(self.handshake):
            # A late token is checked for each second; nothing is delayed by it until near the
            # session's end.
            state.send_until_ms = min(now_ms + _ASK_AGAIN_MS, self._ends_ms - _HELD_BACK_MS)
            return
        self._stop_waiting()
        self._began_ms = now_ms
        versions = self.handshake.api_versions
        self.handshake = security.handshake(self._owner.node, self._address, versions)
        state.begin_login_again()
        self._begin_login(now_ms)
        self.go_on(now_ms)

    def take(self, body: memoryview) -> None:
        """Process the response to the handshake's latest request.

        Args:
            body: The response without its header.

        Raises:
            KprodError: The connection cannot be used.
        """
        assert self.handshake is not None  # noqa: S101 - something was asked
        self.handshake.take(body)
        self._asked = None

    def go_on(self, now_ms: int) -> None:
        """Send the next request, wait for its message, or end the handshake.

        Args:
            now_ms: Monotonic time.

        Raises:
            KprodError: The connection cannot be used.
        """
        handshake, state = self.handshake, self._owner.state
        assert handshake is not None  # noqa: S101 - begun
        if handshake.is_logging_in and state.current is ConnectionState.CHECKING_API_VERSIONS:
            state.begin_login()
            self._begin_login(now_ms)
        progress = handshake.go_on(functools.partial(self._resume, handshake))
        if progress is Progress.ASK:
            self._asked, version = handshake.request(self._owner.node.node_id, now_ms)
            self._owner.send(self._asked, version, now_ms)
        elif progress is Progress.DONE:
            self._finish(handshake, now_ms)

    def end(self) -> None:
        """Discard the handshake, since the connection is closed."""
        self._stop_clock()
        self._stop_waiting()
        self.handshake = self._asked = None
        self._owner.state.send_until_ms = NEVER_MS

    def _begin_login(self, now_ms: int) -> None:
        assert self.handshake is not None  # noqa: S101 - begun
        deadline_ms = now_ms + self._context.request_timeout_ms
        self.handshake.begin_login(deadline_ms)
        self._timeout = TimerTask(self._on_timeout)
        self._context.timer.add_at(deadline_ms, self._timeout)

    def _finish(self, handshake: Handshake, now_ms: int) -> None:
        self._stop_clock()
        is_again = self._owner.state.current is ConnectionState.REAUTHENTICATING
        lifetime_ms = getattr(handshake.login, "lifetime_ms", 0)
        mark_ms = self._ends_ms = NEVER_MS
        if lifetime_ms:
            self._ends_ms = now_ms + lifetime_ms
            share = self._context.rng.uniform(*LOGIN_AGAIN_SHARE)
            mark_ms = now_ms + max(int(lifetime_ms * share), LOGIN_AGAIN_MS_MIN)
        self._owner.state.become_ready(mark_ms)
        if handshake.login is not None:
            self._context.security.was_let_in()
            self._context.recorder.logged_in(now_ms - self._began_ms, is_again=is_again)
        self._owner.on_let_in(now_ms, is_again=is_again)

    def _has_fresh_token(self, handshake: Handshake) -> bool:
        """Whether a login may start; if not, `_allow_again` is called at the session's end."""
        if self._token_wait is not None:
            return False  # a fetch is in progress, or waits for its turn
        allow = functools.partial(self._allow_again, handshake)
        if self._context.security.can_log_in_again(allow):
            return True
        self._token_wait = TimerTask(allow)
        self._context.timer.add_at(self._ends_ms, self._token_wait)
        return False

    def _stop_waiting(self) -> None:
        if self._token_wait is not None:
            self._token_wait.cancel()
            self._token_wait = None

    def _stop_clock(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _resume(self, handshake: Handshake) -> None:
        """Continue the handshake, since its next message is available."""
        if handshake is not self.handshake:
            return  # belongs to a closed connection
        now_ms = max(self._context.timer.now_ms, self._began_ms)
        try:
            self.go_on(now_ms)
        except KprodError as error:
            self._owner.drop(error, now_ms)

    def _allow_again(self, handshake: Handshake) -> None:
        """Allow the next request to start another login immediately."""
        if handshake is self.handshake and self._owner.state.send_until_ms != NEVER_MS:
            self._stop_waiting()
            self._owner.state.send_until_ms = min(
                self._owner.state.send_until_ms, self._context.timer.now_ms
            )

    def _on_timeout(self) -> None:
        self._timeout = None
        if self._asked is not None:
            return  # the broker is late; the request's own deadline handles that
        allowed_ms = self._context.request_timeout_ms
        error = AuthenticationFailed(
            f"cannot connect to broker {self._owner.node.address}: the login was not over within"
            f" {allowed_ms} ms (request_timeout_ms)"
            f"{self._context.security.waiting_for()}"
        )
        self._owner.drop(error, self._context.timer.now_ms)
