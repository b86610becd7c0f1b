"""Delegation tokens: what a user may give to others instead of a password, for a while.

A token's id takes the place of the name in SCRAM, and its HMAC, in base64, that of the password.

Thread-safety: the broker's thread.
Source: KIP-48; Kafka's DelegationTokenManager and DelegationTokenControlManager (4.3).
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kprod.broker.sasl.credentials import ScramKeys, scram_keys
from kprod.clock import Clock

MAX_LIFETIME_MS = 7 * 24 * 3_600_000  # Kafka's delegation.token.max.lifetime.ms
EXPIRY_MS = 24 * 3_600_000  # Kafka's delegation.token.expiry.time.ms
TOKENS_MAX = 10_000
_ID_BYTES = 16
_SALT_BYTES = 16


@dataclass(slots=True, kw_only=True)
class DelegationToken:
    """One token.

    Attributes:
        token_id: Names it.
        secret: Its HMAC; never shown.
        owner: Who is let in by it.
        requester: Who has made it.
        renewers: Who may make it last longer, besides the owner.
        issued_ms: When it was made; milliseconds since the epoch.
        expires_ms: When it ends, if it is not renewed.
        ends_ms: When it ends at the latest.
    """

    token_id: str
    secret: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: Sequence[str]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    def scram_keys(self, hash_name: str) -> ScramKeys:
        """Derive what SCRAM compares with.

        Args:
            hash_name: `sha256` or `sha512`.

        Returns:
            Keys of the token's password.
        """
        password = base64.b64encode(self.secret)
        salt = hashlib.sha256(self.token_id.encode()).digest()[:_SALT_BYTES]
        return scram_keys(password, salt, hash_name)

    def is_renewed_by(self, user: str) -> bool:
        """Whether a user may renew it or let it expire."""
        return user in {self.owner, self.requester, *self.renewers}


class DelegationTokens:
    """The tokens of a cluster, at most `TOKENS_MAX`; the oldest go first."""

    __slots__ = ("_by_id", "_clock", "_key")

    def __init__(self, clock: Clock) -> None:
        """Begin without tokens.

        Args:
            clock: Its wall clock counts.
        """
        self._clock = clock
        self._key = secrets.token_bytes(64)
        self._by_id: dict[str, DelegationToken] = {}

    def __iter__(self) -> Iterator[DelegationToken]:
        """All that are good now."""
        return iter([it for it in self._by_id.values() if self.lifetime_ms(it) > 0])

    def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> DelegationToken:
        """Make a token.

        Args:
            owner: Who is let in by it.
            requester: Who has asked for it.
            renewers: Who else may renew it.
            max_lifetime_ms: How long it may be renewed; −1 or more than the most: the most.

        Returns:
            The token.
        """
        now_ms = self._clock.timestamp_ms()
        lifetime_ms = max_lifetime_ms if 0 < max_lifetime_ms < MAX_LIFETIME_MS else MAX_LIFETIME_MS
        token_id = secrets.token_urlsafe(_ID_BYTES)
        token = DelegationToken(
            token_id=token_id,
            secret=hmac.digest(self._key, token_id.encode(), "sha512"),
            owner=owner,
            requester=requester,
            renewers=tuple(renewers),
            issued_ms=now_ms,
            expires_ms=now_ms + min(EXPIRY_MS, lifetime_ms),
            ends_ms=now_ms + lifetime_ms,
        )
        self._by_id = {it.token_id: it for it in self}
        while len(self._by_id) >= TOKENS_MAX:
            del self._by_id[next(iter(self._by_id))]
        self._by_id[token_id] = token
        return token

    def valid(self, token_id: str) -> DelegationToken | None:
        """Return a token that is good now, by its id."""
        token = self._by_id.get(token_id)
        return token if token is not None and self.lifetime_ms(token) > 0 else None

    def by_secret(self, secret: bytes) -> DelegationToken | None:
        """Return a token by its HMAC, good or not."""
        found = [it for it in self._by_id.values() if hmac.compare_digest(it.secret, secret)]
        return found[0] if found else None

    def lifetime_ms(self, token: DelegationToken) -> int:
        """Return how long a token is still good; not above 0 when it is over."""
        return token.expires_ms - self._clock.timestamp_ms()

    def renew(self, token: DelegationToken, period_ms: int) -> int:
        """Let a token last from now on, but not beyond its end.

        Args:
            token: Good now.
            period_ms: How long; negative for Kafka's default.

        Returns:
            When it expires.
        """
        period_ms = EXPIRY_MS if period_ms < 0 else period_ms
        token.expires_ms = min(token.ends_ms, self._clock.timestamp_ms() + period_ms)
        return token.expires_ms

    def expire(self, token: DelegationToken, period_ms: int) -> int:
        """Let a token end.

        Args:
            token: Good or not.
            period_ms: From now on; negative for at once.

        Returns:
            When it expires.
        """
        now_ms = self._clock.timestamp_ms()
        if period_ms < 0:
            self._by_id.pop(token.token_id, None)
            token.expires_ms = now_ms
        else:
            token.expires_ms = min(token.ends_ms, now_ms + period_ms)
        return token.expires_ms
