"""One login each: PLAIN, and SCRAM with SHA-256 or SHA-512.

Thread-safety: the broker's thread.
Source: RFC 4616; RFC 5802, RFC 7677; Kafka's PlainSaslServer and ScramSaslServer (4.3) for texts.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import NamedTuple, Protocol

from kprod.broker.rejection import Refused
from kprod.broker.sasl.credentials import SCRAM_ITERATIONS, Credentials, ScramKeys
from kprod.protocol.error_table import ErrorCode

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NONCE_BYTES = 18
# Extensions, such as a delegation token's, may follow the nonce.
_CLIENT_FIRST = re.compile(r"n,(?:a=[^,]*)?,(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)")
_CLIENT_FINAL = re.compile(r"(c=biws,r=([\x21-\x2b\x2d-\x7e]+)),p=([A-Za-z0-9+/=]+)")


class Verdict(NamedTuple):
    """What comes of a client's message.

    Attributes:
        message: The server's next, maybe empty.
        user: Who has logged in; None while the exchange goes on.
    """

    message: bytes
    user: str | None = None


class Verifier(Protocol):
    """The server's side of one exchange."""

    def take(self, message: bytes) -> Verdict:
        """Read a client's message.

        Args:
            message: Of any bytes.

        Returns:
            What to answer.

        Raises:
            Refused: The login failed.
        """


class PlainVerifier:
    """Name and password in one message."""

    __slots__ = ("_credentials",)

    def __init__(self, credentials: Credentials) -> None:
        """Know the users."""
        self._credentials = credentials

    def take(self, message: bytes) -> Verdict:
        """See `Verifier`."""
        parts = message.split(b"\0")
        refusal = Refused(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "Authentication failed: Invalid username or password",
        )
        if len(parts) != 3 or not all(parts[1:]):  # noqa: PLR2004 - authzid, name, password
            raise refusal
        user = parts[1].decode(errors="replace")
        if not self._credentials.is_right(user, parts[2]) or parts[0] not in {b"", parts[1]}:
            raise refusal
        return Verdict(b"", user)


class ScramVerifier:
    """Four messages; the password is in none."""

    __slots__ = ("_credentials", "_first", "_keys", "_mechanism", "_nonce", "_user")

    def __init__(self, credentials: Credentials, mechanism: str) -> None:
        """Know the users and the hash."""
        self._credentials = credentials
        self._mechanism = mechanism
        self._user: str | None = None
        self._keys = ScramKeys(b"", b"", b"")
        self._nonce = ""
        self._first = ""

    def take(self, message: bytes) -> Verdict:
        """See `Verifier`."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise self._refusal() from None
        return self._begin(text) if self._user is None else self._finish(text, self._user)

    def _begin(self, text: str) -> Verdict:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise self._refusal()
        bare, name, nonce = match.groups()
        self._user = name.replace("=2C", ",").replace("=3D", "=")
        self._keys = self._credentials.scram_keys(self._user, SCRAM_HASHES[self._mechanism])
        self._nonce = nonce + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(self._keys.salt).decode()
        first = f"r={self._nonce},s={salt},i={SCRAM_ITERATIONS}"
        self._first = f"{bare},{first}"
        return Verdict(first.encode())

    def _finish(self, text: str, user: str) -> Verdict:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or match[2] != self._nonce:
            raise self._refusal()
        signed = f"{self._first},{match[1]}".encode()
        hash_name = SCRAM_HASHES[self._mechanism]
        signature = hmac.digest(self._keys.stored_key, signed, hash_name)
        try:
            proof = base64.b64decode(match[3], validate=True)
        except binascii.Error:
            raise self._refusal() from None
        if len(proof) != len(signature):
            raise self._refusal()
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(hash_name, client_key).digest()
        if not hmac.compare_digest(stored_key, self._keys.stored_key):
            raise self._refusal()
        own = base64.b64encode(hmac.digest(self._keys.server_key, signed, hash_name)).decode()
        return Verdict(f"v={own}".encode(), user)

    def _refusal(self) -> Refused:
        return Refused(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "Authentication failed during authentication due to invalid credentials with SASL"
            f" mechanism {self._mechanism}",
        )


def make_verifier(mechanism: str, credentials: Credentials) -> Verifier:
    """Begin a login.

    Args:
        mechanism: One of those that `BrokerSecurity` may have.
        credentials: The users.

    Returns:
        The server's side of it.
    """
    if mechanism == "PLAIN":
        return PlainVerifier(credentials)
    return ScramVerifier(credentials, mechanism)
