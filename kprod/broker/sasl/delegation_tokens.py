"""Delegation tokens: temporary credentials that a user can pass on instead of a password.

In SCRAM a token's id replaces the user name, and its HMAC, in base64, the password. Only tests
create tokens, since CreateDelegationToken and the related APIs are not served.

Thread-safety: the broker's thread.
Source: KIP-48; Kafka's DelegationTokenManager and DelegationTokenControlManager (4.3).
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from kprod.broker.sasl.credentials import ScramKeys, scram_keys
from kprod.clock import Clock

EXPIRY_MS = 24 * 3_600_000  # Kafka's delegation.token.expiry.time.ms
TOKENS_MAX = 10_000
_ID_BYTES = 16
_SALT_BYTES = 16


@dataclass(slots=True, kw_only=True)
class DelegationToken:
    """One token.

    Attributes:
        token_id: The token's id.
        secret: Its HMAC; never shown.
        owner: The user that it authenticates.
        expires_ms: Time of expiry, in milliseconds since 1970.
    """

    token_id: str
    secret: bytes = field(repr=False)
    owner: str
    expires_ms: int

    def scram_keys(self, hash_name: str) -> ScramKeys:
        """Derive the SCRAM keys.

        Args:
            hash_name: `sha256` or `sha512`.

        Returns:
            The keys of the token's password.
        """
        password = base64.b64encode(self.secret)
        salt = hashlib.sha256(self.token_id.encode()).digest()[:_SALT_BYTES]
        return scram_keys(password, salt, hash_name)


class DelegationTokens:
    """The tokens of a cluster, at most `TOKENS_MAX`; the oldest are removed first."""

    __slots__ = ("_by_id", "_clock", "_key")

    def __init__(self, clock: Clock) -> None:
        """Start with no tokens.

        Args:
            clock: The wall clock.
        """
        self._clock = clock
        self._key = secrets.token_bytes(64)
        self._by_id: dict[str, DelegationToken] = {}

    def create(self, owner: str, lifetime_ms: int = EXPIRY_MS) -> DelegationToken:
        """Create a token.

        Args:
            owner: The user that it authenticates.
            lifetime_ms: Lifetime in milliseconds, at most Kafka's default of a day.

        Returns:
            The token.
        """
        token_id = secrets.token_urlsafe(_ID_BYTES)
        token = DelegationToken(
            token_id=token_id,
            secret=hmac.digest(self._key, token_id.encode(), "sha512"),
            owner=owner,
            expires_ms=self._clock.timestamp_ms() + min(EXPIRY_MS, lifetime_ms),
        )
        self._by_id = {key: it for key, it in self._by_id.items() if self.lifetime_ms(it) > 0}
        while len(self._by_id) >= TOKENS_MAX:
            del self._by_id[next(iter(self._by_id))]
        self._by_id[token_id] = token
        return token

    def valid(self, token_id: str) -> DelegationToken | None:
        """Return a token by its id, unless it has expired."""
        token = self._by_id.get(token_id)
        return token if token is not None and self.lifetime_ms(token) > 0 else None

    def lifetime_ms(self, token: DelegationToken) -> int:
        """Return a token's remaining lifetime; 0 or negative if it has expired."""
        return token.expires_ms - self._clock.timestamp_ms()
