"""The handshake steps of a SASL login: SaslHandshake, then SaslAuthenticate.

Only the configured mechanism is used. The broker's list of mechanisms is only used in error texts,
so that an attacker cannot select a weaker mechanism.

Thread-safety: one thread.
Source: Kafka's SaslClientAuthenticator (clients 4.3.1); KIP-43, KIP-152, KIP-255.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kprod._core.wire.wire_bounds import Bounds
from kprod.errors import AuthenticationFailed
from kprod.network.handshake import ApiVersionsStep, Progress, Step
from kprod.network.sasl.login import Login
from kprod.peer_text import peer_text
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import choose_version
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import ErrorCode

LIFETIME_MS_MAX = 365 * 24 * 3_600_000
ROUNDS_MAX = 10  # limits the messages of a login that never ends
_BOUNDS = Bounds(memory_bytes=1 << 20)
_HANDSHAKE_VERSIONS = (1, 1)  # version 0 is followed by raw tokens, as before Kafka 1.0
_AUTHENTICATE_VERSIONS = (0, 2)


class Identity(NamedTuple):
    """User, broker and mechanism of a login, for texts.

    Attributes:
        address: The broker's address, `host:port`.
        user: The user name; empty if it is in the mechanism's own messages.
        mechanism: The SASL mechanism.
    """

    address: str
    user: str
    mechanism: str

    def failed(self, why: str) -> AuthenticationFailed:
        """Create the error of a failed login.

        Args:
            why: The reason, as the rest of the sentence.

        Returns:
            The error, to be raised.
        """
        return AuthenticationFailed(f"cannot connect to broker {self.address}: {why}")


class SaslHandshakeStep(Step):
    """Sends the client's SASL mechanism."""

    __slots__ = ("_identity", "_versions")

    api_key = ApiKey.SASL_HANDSHAKE

    def __init__(self, identity: Identity, versions: ApiVersionsStep) -> None:
        """Start before the first message.

        Args:
            identity: The user, broker and mechanism.
            versions: The ApiVersions step.
        """
        self._identity = identity
        self._versions = versions

    @property
    def version(self) -> int:
        """See `Step`."""
        return _version(self.api_key, self._versions, _HANDSHAKE_VERSIONS)

    def request_body(self) -> Mapping[str, Any]:
        """See `Step`."""
        return {"mechanism": self._identity.mechanism}

    def take(self, body: memoryview) -> bool:
        """See `Step`."""
        answer = response_codec(self.api_key, self.version).decode(body, _BOUNDS)
        code = answer["error_code"]
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = peer_text(", ".join(answer["mechanisms"]) or "no mechanism")
            raise self._identity.failed(
                f"the broker offers {offered}, not {self._identity.mechanism} (sasl_mechanism)"
            )
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self._identity.failed(
                "the listener takes no login: set security_protocol=PLAINTEXT or SSL, or name"
                " another port"
            )
        if code:
            raise self._identity.failed(f"the broker rejected SaslHandshake with error {code}")
        return True


class SaslAuthenticateStep(Step):
    """Exchanges the messages of one login.

    Attributes:
        lifetime_ms: Lifetime of the session, from the last response; 0 for that of the connection.
    """

    __slots__ = (
        "_challenge",
        "_identity",
        "_is_over",
        "_login",
        "_message",
        "_rounds",
        "_versions",
        "lifetime_ms",
    )

    api_key = ApiKey.SASL_AUTHENTICATE

    def __init__(self, identity: Identity, versions: ApiVersionsStep, login: Login) -> None:
        """Start before the first message.

        Args:
            identity: The user, broker and mechanism.
            versions: The connection's ApiVersions step.
            login: Creates and processes messages.
        """
        self._identity = identity
        self._versions = versions
        self._login = login
        self._challenge: bytes | None = None  # the broker's last message; None before the first
        self._message: bytes | None = None
        self._is_over = False
        self._rounds = 0
        self.lifetime_ms: int = 0

    @property
    def version(self) -> int:
        """See `Step`."""
        return _version(self.api_key, self._versions, _AUTHENTICATE_VERSIONS)

    def prepare(self, resume: Callable[[], None]) -> Progress:
        """See `Step`."""
        if self._message is None and not self._is_over:
            try:
                if not self._login.prepare(self._challenge, resume):
                    return Progress.WAIT
                self._speak()
            except AuthenticationFailed as error:
                raise self._identity.failed(str(error)) from error.__cause__
        return Progress.DONE if self._is_over else Progress.ASK

    def _speak(self) -> None:
        if self._challenge is None:
            self._message = self._login.first()
            return
        self._message = self._login.answer(self._challenge)
        self._is_over = self._message is None
        if not self._is_over and self._rounds >= ROUNDS_MAX:
            raise AuthenticationFailed(f"the login was not over after {ROUNDS_MAX} messages")

    def request_body(self) -> Mapping[str, Any]:
        """See `Step`; a message is discarded once it is returned."""
        message, self._message = self._message, None
        return {"auth_bytes": message}

    def take(self, body: memoryview) -> bool:
        """See `Step`; returns True if the response completes the login."""
        answer = response_codec(self.api_key, self.version).decode(body, _BOUNDS)
        code, identity = answer["error_code"], self._identity
        if code:
            said = peer_text(answer["error_message"] or f"error {code}")
            raise self._login.rejection(
                identity.failed(f"the broker rejected {self._rejected_whom()}: {said}")
            )
        self._rounds += 1
        self._challenge = bytes(answer["auth_bytes"])
        self.lifetime_ms = min(max(answer.get("session_lifetime_ms", 0), 0), LIFETIME_MS_MAX)
        return False

    def _rejected_whom(self) -> str:
        identity = self._identity
        who = f"user {peer_text(identity.user)!r}" if identity.user else "the login"
        return f"{who} ({identity.mechanism})"


def _version(api_key: ApiKey, versions: ApiVersionsStep, wanted: tuple[int, int]) -> int:
    assert versions.features is not None  # noqa: S101 - its step is over
    return choose_version(api_key, versions.features.versions, wanted)
