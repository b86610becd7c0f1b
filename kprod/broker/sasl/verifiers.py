"""Verifiers for PLAIN, and for SCRAM with SHA-256 or SHA-512.

Thread-safety: the broker's thread.
Source: RFC 4616; RFC 5802, RFC 7677; Kafka's PlainSaslServer and ScramSaslServer (4.3) for texts.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from kprod.broker.rejection import Rejected
from kprod.broker.sasl.credentials import SCRAM_ITERATIONS, Credentials, ScramKeys
from kprod.broker.sasl.delegation_tokens import DelegationToken, DelegationTokens
from kprod.broker.sasl.verdict import Verdict, rejection
from kprod.protocol.error_table import ErrorCode

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NONCE_BYTES = 18
_CLIENT_FIRST = re.compile(
    r"(n,(?:a=([^,]*))?,)(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)((?:,[A-Za-z]+=[^,]*)*))"
)
_CLIENT_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)),p=([A-Za-z0-9+/=]+)")
_TOKEN_EXTENSION = ",tokenauth=true"  # noqa: S105 - no password


class PlainVerifier:
    """Verifies name and password in one message."""

    __slots__ = ("_credentials",)

    def __init__(self, credentials: Credentials) -> None:
        """Create a verifier."""
        self._credentials = credentials

    def take(self, message: bytes) -> Verdict:
        """Implement `Verifier.take`."""
        parts = message.split(b"\0")
        rejection = Rejected(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "Authentication failed: Invalid username or password",
        )
        if len(parts) != 3 or not all(parts[1:]):  # noqa: PLR2004 - authzid, name, password
            raise rejection
        user = parts[1].decode(errors="replace")
        if not self._credentials.is_right(user, parts[2]) or parts[0] not in {b"", parts[1]}:
            raise rejection
        return Verdict(b"", user)


class ScramVerifier:
    """Verifies by four messages, none of which contains the password."""

    __slots__ = (
        "_credentials",
        "_first",
        "_header",
        "_keys",
        "_mechanism",
        "_nonce",
        "_token",
        "_tokens",
        "_user",
    )

    def __init__(
        self, credentials: Credentials, mechanism: str, tokens: DelegationTokens | None = None
    ) -> None:
        """Create a verifier.

        Args:
            credentials: The users.
            mechanism: A key of `SCRAM_HASHES`.
            tokens: Delegation tokens accepted instead of a password; None for none.
        """
        self._credentials = credentials
        self._mechanism = mechanism
        self._tokens = tokens
        self._token: DelegationToken | None = None
        self._user: str | None = None
        self._keys = ScramKeys(b"", b"", b"")
        self._header = ""
        self._nonce = ""
        self._first = ""

    def take(self, message: bytes) -> Verdict:
        """Implement `Verifier.take`."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise rejection(self._mechanism) from None
        return self._begin(text) if self._user is None else self._finish(text, self._user)

    def _begin(self, text: str) -> Verdict:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise rejection(self._mechanism)
        header, identity, bare, name, nonce, extensions = match.groups()
        name = _unescaped(name)
        if identity and _unescaped(identity) != name:
            raise Rejected(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "Authentication failed: Client requested an authorization id that is different"
                " from username",
            )
        self._user = self._owner(name) if _TOKEN_EXTENSION in extensions else name
        if self._token is None:
            self._keys = self._credentials.scram_keys(name, SCRAM_HASHES[self._mechanism])
        else:
            self._keys = self._token.scram_keys(SCRAM_HASHES[self._mechanism])
        self._header = header
        self._nonce = nonce + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(self._keys.salt).decode()
        first = f"r={self._nonce},s={salt},i={SCRAM_ITERATIONS}"
        self._first = f"{bare},{first}"
        return Verdict(first.encode())

    def _owner(self, token_id: str) -> str:
        self._token = None if self._tokens is None else self._tokens.valid(token_id)
        if self._token is None:
            raise rejection(self._mechanism)
        return self._token.owner

    def _finish(self, text: str, user: str) -> Verdict:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or match[3] != self._nonce or _decoded(match[2]) != self._header.encode():
            raise rejection(self._mechanism)
        signed = f"{self._first},{match[1]}".encode()
        hash_name = SCRAM_HASHES[self._mechanism]
        signature = hmac.digest(self._keys.stored_key, signed, hash_name)
        proof = _decoded(match[4])
        if len(proof) != len(signature):
            raise rejection(self._mechanism)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(hash_name, client_key).digest()
        if not hmac.compare_digest(stored_key, self._keys.stored_key):
            raise rejection(self._mechanism)
        own = base64.b64encode(hmac.digest(self._keys.server_key, signed, hash_name)).decode()
        return self._let_in(f"v={own}".encode(), user)

    def _let_in(self, message: bytes, user: str) -> Verdict:
        if self._token is None or self._tokens is None:
            return Verdict(message, user)
        lifetime_ms = self._tokens.lifetime_ms(self._token)
        if lifetime_ms <= 0:
            raise rejection(self._mechanism)  # the token expired during the login
        return Verdict(message, user, lifetime_ms, by_delegation_token=True)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    """Decode strictly; returns nothing for invalid base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
