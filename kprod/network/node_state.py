# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The state of one node's connection, and the time of the next attempt.

No Python bytecode may run in `sends` on the direct path: see `COMPILED_MODULES`.

Invariants.
    A transition that is not in `TRANSITIONS` is a bug in kprod and raises. The back-off grows until
    the node is READY, and is drawn once for each failure. The time allowed for set-up grows until
    a connection is established, and is drawn once for each attempt. The end of a throttle never
    moves back.

Thread-safety: one thread.
Source: Kafka's ConnectionState and ClusterConnectionStates (clients 4.3.1); KIP-144, KIP-601.
"""

import enum
import random
from types import MappingProxyType

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.refresh_schedule import NEVER_MS
from kprod.config import NetworkSettings
from kprod.errors import LocalProtocolError


class ConnectionState(enum.Enum):
    """The state of a connection."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    TLS_HANDSHAKE = "in the TLS handshake"
    CHECKING_API_VERSIONS = "checking API versions"
    AUTHENTICATING = "logging in"
    READY = "ready"
    REAUTHENTICATING = "logging in again"
    AUTHENTICATION_FAILED = "authentication failed"


_State = ConnectionState
_READY = ConnectionState.READY  # cached: attribute access on an enum class runs Python code

TRANSITIONS = MappingProxyType(
    {
        _State.DISCONNECTED: frozenset({_State.CONNECTING}),
        _State.CONNECTING: frozenset(
            {
                _State.TLS_HANDSHAKE,
                _State.CHECKING_API_VERSIONS,
                _State.DISCONNECTED,
                _State.AUTHENTICATION_FAILED,
            }
        ),
        _State.TLS_HANDSHAKE: frozenset(
            {
                _State.CHECKING_API_VERSIONS,
                _State.DISCONNECTED,
                _State.AUTHENTICATION_FAILED,
            }
        ),
        # With TLS 1.3, a broker rejects a client's certificate only after the handshake.
        _State.CHECKING_API_VERSIONS: frozenset(
            {
                _State.AUTHENTICATING,
                _State.READY,
                _State.DISCONNECTED,
                _State.AUTHENTICATION_FAILED,
            }
        ),
        _State.AUTHENTICATING: frozenset(
            {_State.READY, _State.DISCONNECTED, _State.AUTHENTICATION_FAILED}
        ),
        # The TLS alert for a rejected client certificate may arrive as late as this.
        _State.READY: frozenset(
            {_State.REAUTHENTICATING, _State.DISCONNECTED, _State.AUTHENTICATION_FAILED}
        ),
        _State.REAUTHENTICATING: frozenset(
            {_State.READY, _State.DISCONNECTED, _State.AUTHENTICATION_FAILED}
        ),
        _State.AUTHENTICATION_FAILED: frozenset({_State.CONNECTING}),
    }
)
"""The allowed next states of each state."""


class NodeState:
    """One node's state, its failures and its deadlines."""

    def __init__(self, settings: NetworkSettings, rng: random.Random) -> None:
        """Start disconnected, without back-off.

        Args:
            settings: Back-offs and timeouts.
            rng: Random numbers for jitter.
        """
        self.current: ConnectionState = ConnectionState.DISCONNECTED
        self.failures: int = 0  # failed attempts and lost connections since READY
        self.last_attempt_ms: int = 0  # start of the latest attempt; monotonic
        self.retry_at_ms: int = 0
        self.throttled_until_ms: int = 0
        self.send_until_ms: int = NEVER_MS  # from this time on the client must log in again first
        self._setup_failures = 0  # consecutive attempts that did not establish a connection
        self._rng = rng
        self._reconnect_backoff = ExponentialBackoff(
            initial_ms=settings.reconnect_backoff_ms, max_ms=settings.reconnect_backoff_max_ms
        )
        # Accounts are locked after a few wrong passwords, so the back-off after a rejected login is
        # longer.
        self._rejection_backoff = ExponentialBackoff(initial_ms=1_000, max_ms=30_000)
        self._setup_timeout = ExponentialBackoff(
            initial_ms=settings.socket_connection_setup_timeout_ms,
            max_ms=settings.socket_connection_setup_timeout_max_ms,
        )

    @property
    def is_down(self) -> bool:
        """Whether there is neither a connection nor an attempt."""
        current = self.current
        return current is _State.DISCONNECTED or current is _State.AUTHENTICATION_FAILED

    @property
    def is_ready(self) -> bool:
        """Whether requests may be sent, apart from throttling."""
        return self.current is ConnectionState.READY

    def sends(self, now_ms: int) -> bool:
        """Whether requests may be sent now.

        Args:
            now_ms: Monotonic time.

        Returns:
            True if READY, not throttled, and not close to the end of the session.
        """
        return self.current is _READY and self.throttled_until_ms <= now_ms < self.send_until_ms

    @property
    def is_connected(self) -> bool:
        """Whether the handshake is complete, so that requests may be in flight."""
        return self.is_ready or self.current is ConnectionState.REAUTHENTICATING

    def must_log_in_again(self, now_ms: int) -> bool:
        """Whether the next request requires another login first.

        Args:
            now_ms: Monotonic time.

        Returns:
            True if READY and the session is nearly over.
        """
        return self.is_ready and now_ms >= self.send_until_ms

    def can_connect(self, now_ms: int) -> bool:
        """Whether an attempt may be made.

        Args:
            now_ms: Monotonic time.

        Returns:
            True if down and the back-off is over.
        """
        return self.is_down and now_ms >= self.retry_at_ms

    def begin_connect(self, now_ms: int) -> int:
        """Start an attempt.

        Args:
            now_ms: Monotonic time.

        Returns:
            Time limit for establishing the connection, in milliseconds.
        """
        self._move(ConnectionState.CONNECTING)
        self.last_attempt_ms = now_ms
        return self._setup_timeout.wait_ms(self._setup_failures, self._rng)

    def begin_tls(self) -> None:
        """TCP is connected; start TLS within the same time limit."""
        self._move(ConnectionState.TLS_HANDSHAKE)

    def begin_check(self) -> None:
        """The connection is established; start to negotiate versions."""
        self._move(ConnectionState.CHECKING_API_VERSIONS)
        self._setup_failures = 0

    def begin_login(self) -> None:
        """The versions are negotiated; start the login."""
        self._move(ConnectionState.AUTHENTICATING)

    def begin_login_again(self) -> None:
        """The session is nearly over; start another login on the same connection."""
        self._move(ConnectionState.REAUTHENTICATING)

    def become_ready(self, send_until_ms: int = NEVER_MS) -> None:
        """The versions are negotiated, and the login, if any, is complete.

        Args:
            send_until_ms: Monotonic time at which the client must log in again.
        """
        self._move(ConnectionState.READY)
        self.failures = 0
        self.send_until_ms = send_until_ms

    def fail(self, now_ms: int, *, authentication: bool = False) -> None:
        """Record a failed attempt or a lost connection.

        Args:
            now_ms: Monotonic time.
            authentication: Whether the peer rejected the credentials or failed verification.
        """
        if self.current is _State.CONNECTING or self.current is _State.TLS_HANDSHAKE:
            self._setup_failures += 1
        self._move(
            ConnectionState.AUTHENTICATION_FAILED
            if authentication
            else ConnectionState.DISCONNECTED
        )
        backoff = self._rejection_backoff if authentication else self._reconnect_backoff
        self.retry_at_ms = now_ms + backoff.wait_ms(self.failures, self._rng)
        self.failures += 1
        self.throttled_until_ms = 0

    def retire(self, now_ms: int) -> None:
        """Record that an idle connection was closed, which is not a failure.

        Args:
            now_ms: Monotonic time.
        """
        self._move(ConnectionState.DISCONNECTED)
        self.retry_at_ms = now_ms

    def throttle(self, throttle_ms: int, now_ms: int) -> int:
        """Send nothing for a while.

        Args:
            throttle_ms: At least 0.
            now_ms: Monotonic time.

        Returns:
            Milliseconds by which this lengthens the pause; throttles that overlap count once.
        """
        paused_until_ms = max(self.throttled_until_ms, now_ms)
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)
        return self.throttled_until_ms - paused_until_ms

    def _move(self, target: ConnectionState) -> None:
        if target not in TRANSITIONS[self.current]:
            raise LocalProtocolError(
                f"a connection cannot go from {self.current.name} to {target.name}"
            )
        self.current = target
