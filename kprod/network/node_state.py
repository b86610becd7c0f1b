# cython: annotation_typing=False, nonecheck=True
"""Where one node's connection stands, and when the next attempt may be made.

Invariants.
    A move that `TRANSITIONS` lacks is a bug in kprod and raises.
    Waits between attempts grow until the node is READY; the set-up time allowed grows until the
    connection stands. Each is drawn once per failure.
    A throttle's end never moves back.

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
    """Where a connection stands."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    TLS_HANDSHAKE = "in the TLS handshake"
    CHECKING_API_VERSIONS = "checking API versions"
    AUTHENTICATING = "logging in"
    READY = "ready"
    REAUTHENTICATING = "logging in again"
    AUTHENTICATION_FAILED = "authentication failed"


_State = ConnectionState

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
        # In TLS 1.3 a broker rejects a client's certificate only after the handshake.
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
        # The TLS alert that rejects a client's certificate may arrive as late as this.
        _State.READY: frozenset(
            {_State.REAUTHENTICATING, _State.DISCONNECTED, _State.AUTHENTICATION_FAILED}
        ),
        _State.REAUTHENTICATING: frozenset(
            {_State.READY, _State.DISCONNECTED, _State.AUTHENTICATION_FAILED}
        ),
        _State.AUTHENTICATION_FAILED: frozenset({_State.CONNECTING}),
    }
)
"""The states that may follow each state."""


class NodeState:
    """One node's state, its failures and its deadlines."""

    def __init__(self, settings: NetworkSettings, rng: random.Random) -> None:
        """Start disconnected, free to connect.

        Args:
            settings: Back-offs and time-outs.
            rng: Random numbers for jitter.
        """
        self.current: ConnectionState = ConnectionState.DISCONNECTED
        self.failures: int = 0  # attempts in a row that did not lead to READY
        self.last_attempt_ms: int = 0  # of the newest attempt; monotonic
        self.retry_at_ms: int = 0
        self.throttled_until_ms: int = 0
        self.send_until_ms: int = NEVER_MS  # from then on the client must log in again first
        self._setup_failures = 0  # attempts in a row that did not lead to a standing connection
        self._rng = rng
        self._reconnect_backoff = ExponentialBackoff(
            initial_ms=settings.reconnect_backoff_ms, max_ms=settings.reconnect_backoff_max_ms
        )
        # Accounts are locked after a few wrong passwords.
        self._refusal_backoff = ExponentialBackoff(initial_ms=1_000, max_ms=30_000)
        self._setup_timeout = ExponentialBackoff(
            initial_ms=settings.socket_connection_setup_timeout_ms,
            max_ms=settings.socket_connection_setup_timeout_max_ms,
        )

    @property
    def is_down(self) -> bool:
        """Whether there is no connection and none is being made."""
        current = self.current
        return current is _State.DISCONNECTED or current is _State.AUTHENTICATION_FAILED

    @property
    def is_ready(self) -> bool:
        """Whether requests may be sent, throttling aside."""
        return self.current is ConnectionState.READY

    @property
    def is_connected(self) -> bool:
        """Whether the peer has let this client in, and requests may be in flight."""
        return self.is_ready or self.current is ConnectionState.REAUTHENTICATING

    def must_log_in_again(self, now_ms: int) -> bool:
        """Whether the next request needs another login before it.

        Args:
            now_ms: Monotonic time.

        Returns:
            True when READY, and the login is nearly over.
        """
        return self.is_ready and now_ms >= self.send_until_ms

    def can_connect(self, now_ms: int) -> bool:
        """Whether an attempt may be made.

        Args:
            now_ms: Monotonic time.

        Returns:
            True when down and the wait after the last failure is over.
        """
        return self.is_down and now_ms >= self.retry_at_ms

    def begin_connect(self, now_ms: int) -> int:
        """Start an attempt.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds within which the connection must stand.
        """
        self._move(ConnectionState.CONNECTING)
        self.last_attempt_ms = now_ms
        return self._setup_timeout.wait_ms(self._setup_failures, self._rng)

    def begin_tls(self) -> None:
        """TCP stands; TLS is being set up within the same time."""
        self._move(ConnectionState.TLS_HANDSHAKE)

    def begin_check(self) -> None:
        """The connection stands; the peer's versions are being asked for."""
        self._move(ConnectionState.CHECKING_API_VERSIONS)
        self._setup_failures = 0

    def begin_login(self) -> None:
        """The peer's versions are known; this client logs in."""
        self._move(ConnectionState.AUTHENTICATING)

    def begin_login_again(self) -> None:
        """The login is nearly over, and is made again on the same connection."""
        self._move(ConnectionState.REAUTHENTICATING)

    def become_ready(self, send_until_ms: int = NEVER_MS) -> None:
        """The peer's versions are known, and it has let this client in.

        Args:
            send_until_ms: Monotonic; when the client must log in again.
        """
        self._move(ConnectionState.READY)
        self.failures = 0
        self.send_until_ms = send_until_ms

    def fail(self, now_ms: int, *, authentication: bool = False) -> None:
        """The attempt failed, or the connection was lost.

        Args:
            now_ms: Monotonic time.
            authentication: The peer refused the credentials, or was not who it should be.
        """
        if self.current is _State.CONNECTING or self.current is _State.TLS_HANDSHAKE:
            self._setup_failures += 1
        self._move(
            ConnectionState.AUTHENTICATION_FAILED
            if authentication
            else ConnectionState.DISCONNECTED
        )
        backoff = self._refusal_backoff if authentication else self._reconnect_backoff
        self.retry_at_ms = now_ms + backoff.wait_ms(self.failures, self._rng)
        self.failures += 1
        self.throttled_until_ms = 0

    def retire(self, now_ms: int) -> None:
        """The connection was closed because no one used it; that is no failure.

        Args:
            now_ms: Monotonic time.
        """
        self._move(ConnectionState.DISCONNECTED)
        self.retry_at_ms = now_ms

    def throttle(self, throttle_ms: int, now_ms: int) -> None:
        """Be quiet for a while.

        Args:
            throttle_ms: At least 0.
            now_ms: Monotonic time.
        """
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)

    def _move(self, target: ConnectionState) -> None:
        if target not in TRANSITIONS[self.current]:
            raise LocalProtocolError(
                f"a connection cannot go from {self.current.name} to {target.name}"
            )
        self.current = target
