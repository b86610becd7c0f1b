"""Signs and verifies OAUTHBEARER tokens, with the cluster's own key or with given keys.

Thread-safety: `sign` from any thread; `subject` on the broker's thread.
Source: RFC 7519 (JWT), RFC 7517 (JWK); Kafka's BrokerJwtValidator (4.3) and, for tokens without a
signature, OAuthBearerUnsecuredValidatorCallbackHandler.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from kprod.broker.security.broker_security import BrokerSecurity
from kprod.clock import Clock

try:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, KeySet
except ImportError as error:  # pragma: no cover - the tests' environment has it
    raise ImportError(
        "an embedded cluster with OAUTHBEARER signs and reads tokens with joserfc, which is not"
        " installed; install it with kprod's extra: pip install 'kprod[testing]'"
    ) from error

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512")
_KEY_ID = "kprod-embedded-cluster"
_PARTS = 3
_EXPIRES_S_MAX = 2**50  # in milliseconds, that is an int64


class Subject(NamedTuple):
    """The user that a token is for.

    Attributes:
        name: The token's subject.
        lifetime_ms: Remaining lifetime in milliseconds, at least 1.
    """

    name: str
    lifetime_ms: int


class BearerTokens:
    """Signs and verifies tokens."""

    __slots__ = ("_clock", "_key", "_keys", "_security")

    def __init__(self, security: BrokerSecurity, clock: Clock) -> None:
        """Create a key, or parse the given ones.

        Args:
            security: The keys, the audience and the issuer that tokens must have.
            clock: The wall clock.
        """
        self._security = security
        self._clock = clock
        self._key = ECKey.generate_key("P-256", {"kid": _KEY_ID})
        given = security.token_keys
        self._keys = KeySet([self._key]) if given is None else KeySet.import_key_set(dict(given))  # type: ignore[arg-type]

    def sign(self, user: str, expires_in_s: float, claims: Mapping[str, object]) -> str:
        """Sign a token with the cluster's own key.

        Args:
            user: The token's subject.
            expires_in_s: Lifetime in seconds; negative for an expired token.
            claims: Claims that override the usual ones; None removes one.

        Returns:
            The token.
        """
        now_s = self._clock.timestamp_ms() / 1_000
        usual: dict[str, Any] = {
            "sub": user,
            "iat": now_s,
            "exp": now_s + expires_in_s,
            "aud": self._security.token_audience,
            "iss": self._security.token_issuer,
        }
        wanted = {name: it for name, it in {**usual, **claims}.items() if it is not None}
        return jwt.encode({"alg": "ES256", "kid": _KEY_ID}, wanted, self._key)

    def subject(self, token: str) -> Subject | None:
        """Verify a token.

        Args:
            token: Any text.

        Returns:
            The token's subject; None if the token is not accepted.
        """
        claims = self._signed_claims(token)
        if claims is None and self._security.allow_unsecured_tokens:
            claims = _unsecured_claims(token)
        if claims is None:
            return None
        name, expires_s = claims.get("sub"), claims.get("exp")
        if not _is_name(name) or not isinstance(expires_s, int | float):
            return None
        # NaN is in no range.
        if not 0 < expires_s < _EXPIRES_S_MAX or not self._is_meant(claims):
            return None
        lifetime_ms = int(expires_s * 1_000) - self._clock.timestamp_ms()
        return Subject(name, lifetime_ms) if lifetime_ms > 0 else None

    def _signed_claims(self, token: str) -> Mapping[str, Any] | None:
        try:
            return jwt.decode(token, self._keys, algorithms=ALGORITHMS).claims
        except (JoseError, ValueError, TypeError, RecursionError):  # of a header of any shape
            return None

    def _is_meant(self, claims: Mapping[str, Any]) -> bool:
        audience, issuer = self._security.token_audience, self._security.token_issuer
        named = claims.get("aud")
        is_for_us = audience is None or audience == named
        if not is_for_us and isinstance(named, list):
            is_for_us = audience in named
        return is_for_us and (issuer is None or issuer == claims.get("iss"))


def _is_name(found: object) -> TypeGuard[str]:
    return (
        isinstance(found, str)
        and bool(found)
        and not any("\ud800" <= it <= "\udfff" for it in found)
    )


def _unsecured_claims(token: str) -> Mapping[str, Any] | None:
    parts = token.split(".")
    if len(parts) != _PARTS or parts[2]:
        return None
    try:
        header, claims = (
            json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
            for part in parts[:2]
        )
    except (binascii.Error, ValueError, RecursionError):
        return None
    is_unsecured = isinstance(header, dict) and header.get("alg") == "none"
    return claims if is_unsecured and isinstance(claims, dict) else None
