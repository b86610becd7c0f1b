"""Creates unsecured JWTs, for tests against brokers that accept them.

Thread-safety: any thread.
Source: RFC 7519 section 6; Kafka's OAuthBearerUnsecuredLoginCallbackHandler (clients 4.3.1) for the
claims.
"""

import base64
import json
from dataclasses import dataclass, field

from kprod.clock import Clock, SystemClock
from kprod.interfaces import Token


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Makes a token each time.

    Attributes:
        subject: The user that logs in.
        lifetime_s: How long a token is good, in seconds.
        scope: The claim `scope`; empty for none.
        clock: The wall clock.
    """

    subject: str
    lifetime_s: float = 3_600.0
    scope: str = ""
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    def token(self) -> Token:
        """Create a token.

        Returns:
            A token with the algorithm `none` and an empty signature.
        """
        now_s = self.clock.timestamp_ms() / 1_000
        expires_at = now_s + self.lifetime_s
        claims = {"sub": self.subject, "iat": now_s, "exp": expires_at}
        if self.scope:
            claims["scope"] = self.scope
        text = f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(claims)}."
        return Token(text, expires_at, self.subject)


def unsecured(subject: str, *, lifetime_s: float = 3_600.0, scope: str = "") -> UnsecuredTokens:
    """Make a provider of unsecured tokens, for tests only.

    Args:
        subject: The user that logs in.
        lifetime_s: How long each token is good, in seconds.
        scope: The claim `scope`; empty for none.

    Returns:
        A value for `sasl_oauth_token_provider`.
    """
    return UnsecuredTokens(subject, lifetime_s, scope)


def _part(fields: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
