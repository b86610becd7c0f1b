"""Who is at the other end of one connection, and which requests it may send now.

    login wanted → handshake done → logged in → handshake done → logged in …

Behaviour, as of Kafka 4.3.1.
    A. Before a login: ApiVersions, SaslHandshake, SaslAuthenticate. Anything else closes the
       connection, and nothing is said.
    B. Between SaslHandshake and the last SaslAuthenticate: SaslAuthenticate only.
    C. A session that is over: SaslHandshake only; anything else closes the connection.
    D. A handshake within a second of the last login, or on a listener without SASL, is answered
       with ILLEGAL_SASL_STATE, and what there was goes on.
    E. A new login must be by the same user and the same mechanism.

Thread-safety: the broker's thread.
Source: Kafka's SaslServerAuthenticator (4.3); KIP-43, KIP-152, KIP-368.
"""

import enum
from collections.abc import Callable
from typing import Protocol

from kprod.broker.rejection import Refused
from kprod.broker.sasl.credentials import Credentials
from kprod.broker.sasl.verifiers import Verdict, Verifier, make_verifier
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_BEFORE_LOGIN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_LOGIN_AGAIN_MS_MIN = 1_000


class LoginHost(Protocol):
    """What a session needs of the cluster.

    Attributes:
        security: What is demanded of clients.
        credentials: Users and passwords.
        now_ms: Monotonic milliseconds of the current step.
    """

    security: BrokerSecurity
    credentials: Credentials
    now_ms: int


class _State(enum.Enum):
    OPEN = "no login is wanted"
    LOGIN_WANTED = "login wanted"
    HANDSHAKE_DONE = "handshake done"
    LOGGED_IN = "logged in"
    REFUSED = "refused"


class Session:
    """The login of one connection.

    Attributes:
        principal: Who has logged in; None for nobody.
    """

    __slots__ = (
        "_host",
        "_mechanism",
        "_on_login",
        "_since_ms",
        "_state",
        "_until_ms",
        "_verifier",
        "principal",
    )

    def __init__(self, host: LoginHost, on_login: Callable[[], object]) -> None:
        """Begin without a login.

        Args:
            host: The cluster.
            on_login: Called when somebody has logged in.
        """
        self._host = host
        self._on_login = on_login
        self._state = _State.LOGIN_WANTED if host.security.uses_sasl else _State.OPEN
        self._verifier: Verifier | None = None
        self._mechanism = ""
        self._since_ms = 0
        self._until_ms: int | None = None
        self.principal: str | None = None

    def allows(self, api_key: int) -> bool:
        """Whether a request may be handled now; if not, its connection is closed."""
        if self._state is _State.OPEN:
            return True
        if self._state is _State.REFUSED:
            return False  # what was sent behind a wrong login
        if self._state is _State.LOGIN_WANTED:
            return api_key in _BEFORE_LOGIN  # case A
        if self._state is _State.HANDSHAKE_DONE:
            return api_key == ApiKey.SASL_AUTHENTICATE  # case B
        is_over = self._until_ms is not None and self._host.now_ms >= self._until_ms
        return not is_over or api_key == ApiKey.SASL_HANDSHAKE  # case C

    def begin(self, mechanism: str) -> int:
        """Take SaslHandshake.

        Args:
            mechanism: As the client names it.

        Returns:
            An error code.
        """
        if self._state is _State.OPEN:
            return ErrorCode.ILLEGAL_SASL_STATE  # case D
        if self._state is _State.LOGGED_IN:
            is_over = self._until_ms is not None and self._host.now_ms >= self._until_ms
            if not is_over and self._host.now_ms - self._since_ms < _LOGIN_AGAIN_MS_MIN:
                return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._host.security.mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._verifier = make_verifier(mechanism, self._host.credentials)
        if self.principal is not None and mechanism != self._mechanism:
            self._verifier = None  # case E
        self._mechanism = mechanism
        self._state = _State.HANDSHAKE_DONE
        return ErrorCode.NONE

    def authenticate(self, message: bytes) -> Verdict:
        """Take SaslAuthenticate.

        Args:
            message: Of the mechanism.

        Returns:
            What to answer.

        Raises:
            Refused: The login failed.
        """
        if self._state is not _State.HANDSHAKE_DONE or self._verifier is None:
            raise Refused(
                ErrorCode.ILLEGAL_SASL_STATE,
                "SaslAuthenticate request received after successful authentication"
                if self._state is _State.LOGGED_IN
                else "SaslAuthenticate without SaslHandshake of a mechanism that goes on",
            )
        try:
            verdict = self._verifier.take(message)
            if verdict.user is not None:
                self._log_in(verdict.user)
        except Refused:
            self._state = _State.REFUSED
            raise
        return verdict

    @property
    def lifetime_ms(self) -> int:
        """How long the present session lasts; 0 for as long as the connection."""
        return self._host.security.session_lifetime_ms

    def _log_in(self, user: str) -> None:
        if self.principal is not None and user != self.principal:
            raise Refused(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"Cannot change principals during re-authentication from {self.principal}: {user}",
            )
        self.principal = user
        self._since_ms = self._host.now_ms
        self._until_ms = self._since_ms + self.lifetime_ms if self.lifetime_ms else None
        self._state = _State.LOGGED_IN
        self._verifier = None
        self._on_login()
