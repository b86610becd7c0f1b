"""The login state of one connection, and the requests that it allows.

    login wanted → handshake done → logged in → handshake done → logged in …

Behaviour, as of Kafka 4.3.1.
    A. Before a login: ApiVersions and SaslHandshake. Anything else closes the connection, and
       nothing is said.
    B. Between SaslHandshake and the last SaslAuthenticate: SaslAuthenticate only. Anything else is
       answered with ILLEGAL_SASL_STATE in its own form, and closes the connection.
    C. A session that is over: SaslHandshake only; anything else closes the connection.
    D. A client logs in again where sessions end, at most once a second; the first time counts from
       no moment. Else SaslHandshake is answered with ILLEGAL_SASL_STATE, and what there was goes
       on; so is SaslAuthenticate without a handshake, and both on a listener without SASL.
    E. A new login must be by the same user, or is rejected, and by the same mechanism, or the
       connection is closed at SaslAuthenticate, and nothing is said.

Thread-safety: the broker's thread.
Source: Kafka's SaslServerAuthenticator and KafkaChannel (4.3); KIP-43, KIP-152, KIP-368.
"""

import enum
from collections.abc import Callable
from typing import Protocol

from kprod.broker.rejection import Rejected
from kprod.broker.sasl.identities import Identities
from kprod.broker.sasl.mechanisms import make_verifier
from kprod.broker.sasl.verdict import Verdict, Verifier
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.broker.security.security_faults import SecurityFaults
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

ANONYMOUS = "ANONYMOUS"  # Kafka's name for a client without a login
_BEFORE_LOGIN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE})
_LOGIN_AGAIN_MS_MIN = 1_000


class LoginHost(Protocol):
    """The parts of the cluster that a session uses.

    Attributes:
        security: Required TLS, logins and rights.
        identities: Users, passwords and tokens.
        security_faults: The injected faults of logins.
        now_ms: Monotonic milliseconds of the current step.
    """

    security: BrokerSecurity
    security_faults: SecurityFaults
    identities: Identities
    now_ms: int


class Admission(enum.Enum):
    """Whether a request is accepted."""

    HANDLED = "it is handled"
    REJECTED = "it is answered with ILLEGAL_SASL_STATE, and the connection closed"
    CLOSED = "the connection is closed, and nothing is said"


class _State(enum.Enum):
    OPEN = "no login is wanted"
    LOGIN_WANTED = "login wanted"
    HANDSHAKE_DONE = "handshake done"
    LOGGED_IN = "logged in"
    REJECTED = "rejected"


class Session:
    """The login of one connection."""

    __slots__ = (
        "_again_ms",
        "_certified_name",
        "_host",
        "_mechanism",
        "_on_login",
        "_state",
        "_until_ms",
        "_user",
        "_verifier",
        "by_delegation_token",
        "lifetime_ms",
    )

    def __init__(
        self,
        host: LoginHost,
        on_login: Callable[[], object],
        certified_name: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Start without a login.

        Args:
            host: The cluster.
            on_login: Called when a client has logged in.
            certified_name: Returns the common name of the client's certificate, if it has one.
        """
        self._host = host
        self._on_login = on_login
        self._certified_name = certified_name
        self._state = _State.LOGIN_WANTED if host.security.uses_sasl else _State.OPEN
        self._verifier: Verifier | None = None
        self._mechanism = ""
        self._again_ms: int | None = None  # when the last login after the first began
        self._until_ms: int | None = None
        self._user: str | None = None
        self.by_delegation_token: bool = False
        self.lifetime_ms: int = 0

    @property
    def principal(self) -> str:
        """The logged-in user, or the certificate's name; else `ANONYMOUS`."""
        return self._user or self._certified_name() or ANONYMOUS

    @property
    def is_closing(self) -> bool:
        """Whether the login failed, so that the connection must be closed."""
        return self._state is _State.REJECTED

    def admit(self, api_key: int) -> Admission:
        """Decide by the API key whether to accept a request, before it is decoded."""
        if self._state is _State.REJECTED:
            return Admission.CLOSED  # sent after a failed login
        if self._state is _State.LOGIN_WANTED and api_key not in _BEFORE_LOGIN:
            return Admission.CLOSED  # case A
        if self._state is _State.HANDSHAKE_DONE:
            if api_key != ApiKey.SASL_AUTHENTICATE:
                return Admission.REJECTED  # case B
            return Admission.CLOSED if self._verifier is None else Admission.HANDLED  # case E
        if self._is_over and not (api_key == ApiKey.SASL_HANDSHAKE and self._may_log_in_again):
            return Admission.CLOSED  # case C
        return Admission.HANDLED

    def begin(self, mechanism: str) -> int:
        """Process SaslHandshake.

        Args:
            mechanism: The mechanism that the client names.

        Returns:
            An error code.
        """
        if self._state is _State.OPEN:
            return ErrorCode.ILLEGAL_SASL_STATE
        if self._state is _State.LOGGED_IN:
            if not self._may_log_in_again:
                return ErrorCode.ILLEGAL_SASL_STATE  # case D
            self._again_ms = self._host.now_ms
        if mechanism not in self._host.security.mechanisms:
            self._state = _State.REJECTED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        is_other = self._user is not None and mechanism != self._mechanism  # case E
        self._verifier = None if is_other else make_verifier(mechanism, self._host.identities)
        self._mechanism = mechanism
        self._state = _State.HANDSHAKE_DONE
        return ErrorCode.NONE

    def authenticate(self, message: bytes) -> Verdict:
        """Process SaslAuthenticate.

        Args:
            message: The mechanism's message.

        Returns:
            The server's next message, and the user when the login succeeds.

        Raises:
            Rejected: The login failed, or none is in progress.
        """
        if self._state is not _State.HANDSHAKE_DONE or self._verifier is None:
            raise Rejected(
                ErrorCode.ILLEGAL_SASL_STATE,
                "SaslAuthenticate request received after successful authentication",
            )  # case D
        try:
            self._fail_on_demand()
            verdict = self._verifier.take(message)
            if verdict.user is not None:
                self._log_in(verdict.user, verdict)
        except Rejected:
            self._state = _State.REJECTED
            raise
        return verdict

    def expire(self) -> None:
        """Expire the session now."""
        if self._state is _State.LOGGED_IN:
            self._until_ms = self._host.now_ms

    def _fail_on_demand(self) -> None:
        rejection = self._host.security_faults.take_rejection()
        if rejection is not None:
            raise Rejected(ErrorCode.SASL_AUTHENTICATION_FAILED, rejection)

    @property
    def _is_over(self) -> bool:
        is_limited = self._state is _State.LOGGED_IN and self._until_ms is not None
        return is_limited and self._host.now_ms >= (self._until_ms or 0)

    @property
    def _may_log_in_again(self) -> bool:
        if self._until_ms is None:
            return False
        return self._again_ms is None or self._host.now_ms - self._again_ms >= _LOGIN_AGAIN_MS_MIN

    def _log_in(self, user: str, verdict: Verdict) -> None:
        if self._user is not None and user != self._user:
            raise Rejected(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "Cannot change principals during re-authentication from"
                f" User.{self._user}: User.{user}",
            )  # case E
        self._user = user
        self.by_delegation_token = verdict.by_delegation_token
        limits_ms = [self._host.security.session_lifetime_ms, verdict.lifetime_ms or 0]
        self.lifetime_ms = min(filter(None, limits_ms), default=0)
        self._until_ms = self._host.now_ms + self.lifetime_ms if self.lifetime_ms else None
        self._state = _State.LOGGED_IN
        self._verifier = None
        self._on_login()
