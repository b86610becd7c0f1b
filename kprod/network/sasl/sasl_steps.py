"""The steps of a handshake in which a client logs in: SaslHandshake, then SaslAuthenticate.

The mechanism is the one of the settings. What the broker offers goes into an error's text and
nowhere else, so that nobody on the way can choose a weaker one.

Thread-safety: one thread.
Source: Kafka's SaslClientAuthenticator (clients 4.3.1); KIP-43, KIP-152, KIP-255.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kprod._core.wire.wire_bounds import Bounds
from kprod.errors import AuthenticationFailed
from kprod.network.handshake import ApiVersionsStep
from kprod.network.sasl.login import Login
from kprod.peer_text import peer_text
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import choose_version
from kprod.protocol.codec import response_codec
from kprod.protocol.error_table import ErrorCode

ROUNDS_MAX = 10  # a broker that asks for ever must not be answered for ever
_BOUNDS = Bounds(memory_bytes=1 << 20)
_HANDSHAKE_VERSIONS = (1, 1)  # in version 0 bare tokens follow, as before Kafka 1.0
_AUTHENTICATE_VERSIONS = (0, 2)


class Identity(NamedTuple):
    """Who logs in where, for texts.

    Attributes:
        address: The broker's, `host:port`.
        user: The name.
        mechanism: How.
    """

    address: str
    user: str
    mechanism: str

    def failed(self, why: str) -> AuthenticationFailed:
        """Make the error of a login.

        Args:
            why: The rest of its sentence.

        Returns:
            To be raised.
        """
        return AuthenticationFailed(f"cannot connect to broker {self.address}: {why}")


class SaslHandshakeStep:
    """Says by which mechanism the client logs in."""

    __slots__ = ("_identity", "_versions")

    api_key = ApiKey.SASL_HANDSHAKE

    def __init__(self, identity: Identity, versions: ApiVersionsStep) -> None:
        """Make a step that has said nothing yet.

        Args:
            identity: Who, and how.
            versions: The step before it.
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
            raise self._identity.failed(f"the broker refused SaslHandshake with error {code}")
        return True


class SaslAuthenticateStep:
    """Carries the messages of one login."""

    __slots__ = ("_identity", "_login", "_message", "_rounds", "_versions")

    api_key = ApiKey.SASL_AUTHENTICATE

    def __init__(self, identity: Identity, versions: ApiVersionsStep, login: Login) -> None:
        """Make a step that has sent nothing yet.

        Args:
            identity: Who, and how.
            versions: An earlier step.
            login: The mechanism's.
        """
        self._identity = identity
        self._versions = versions
        self._login = login
        self._message: bytes | None = None
        self._rounds = 0

    @property
    def version(self) -> int:
        """See `Step`."""
        return _version(self.api_key, self._versions, _AUTHENTICATE_VERSIONS)

    def request_body(self) -> Mapping[str, Any]:
        """See `Step`; a message is forgotten when it is handed out."""
        message, self._message = self._message, None
        return {"auth_bytes": self._login.first() if message is None else message}

    def take(self, body: memoryview) -> bool:
        """See `Step`."""
        answer = response_codec(self.api_key, self.version).decode(body, _BOUNDS)
        code, identity = answer["error_code"], self._identity
        if code:
            said = peer_text(answer["error_message"] or f"error {code}")
            raise identity.failed(
                f"the broker refused user {peer_text(identity.user)!r} ({identity.mechanism}):"
                f" {said}"
            )
        self._rounds += 1
        try:
            self._message = self._login.answer(bytes(answer["auth_bytes"]))
        except AuthenticationFailed as error:
            raise identity.failed(str(error)) from None
        if self._message is None:
            return True
        if self._rounds >= ROUNDS_MAX:
            raise identity.failed(f"the login was not over after {ROUNDS_MAX} messages")
        return False


def _version(api_key: ApiKey, versions: ApiVersionsStep, wanted: tuple[int, int]) -> int:
    assert versions.features is not None  # noqa: S101 - its step is over
    return choose_version(api_key, versions.features.versions, wanted)
