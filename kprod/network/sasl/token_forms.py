"""Converts an application's bearer token, in any accepted form, and parses its claims.

Tokens are never verified here: that is the broker's task. kprod only reads the expiry and, for
error texts, the subject.

Thread-safety: pure functions.
Source: RFC 6750 section 2.1 for a token's characters, RFC 7519 for claims, RFC 7628 for extensions;
confluent-kafka's `oauth_cb` for tuples.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from kprod.errors import AuthenticationFailed
from kprod.interfaces import Token
from kprod.peer_text import peer_text
from kprod.secret import Secret

TOKEN_LENGTH_MAX = 64 << 10
_MILLISECONDS_MIN = 1e11  # as seconds, that is the year 5138
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]*")
_JWT_PARTS = 3
_FIELDS_MAX = 4


def as_token(found: object, now_s: float) -> Token:
    """Convert the result of a token provider to a token.

    Args:
        found: A `Token`, a string, or a tuple of string, seconds, principal and extensions.
        now_s: Seconds since 1970.

    Returns:
        Checked.

    Raises:
        AuthenticationFailed: It has another type, is malformed or has expired; the text shows
            nothing of it.
    """
    token, fault = _read(found)
    if fault is None and token.expires_at is not None:
        fault = _time_fault(token.expires_at, now_s)
    if fault is not None:
        raise AuthenticationFailed(f"the token provider returned {fault}")
    return token


def _read(found: object) -> tuple[Token, str | None]:
    """Parse the response or return a fault, so that no exception's frame contains a token."""
    nothing = Token(Secret(""))
    if not isinstance(found, Token):
        fields = found if isinstance(found, tuple) else (found,)
        if not 1 <= len(fields) <= _FIELDS_MAX or not isinstance(fields[0], str | Secret):
            kind = type(found).__name__
            return nothing, f"a value of type {kind}, not a token, a text, or text and seconds"
        value = fields[0] if isinstance(fields[0], Secret) else Secret(fields[0])
        found = Token(value, *fields[1:])
    fault = _types_fault(found)
    if fault is not None:
        return nothing, fault
    value = found.value if isinstance(found.value, Secret) else Secret(found.value)
    principal = str(found.principal or "")
    found = found._replace(
        value=value, principal=principal, extensions=dict(found.extensions or {})
    )
    if len(value.reveal()) > TOKEN_LENGTH_MAX or not _TOKEN.fullmatch(value.reveal()):
        return nothing, (
            f"a text of {len(value.reveal())} characters that is not a bearer token (RFC 6750)"
        )
    fault = _extensions_fault(found.extensions)
    if fault is None and found.expires_at is None:
        claims = claims_of(value)
        found = found._replace(
            expires_at=_number(claims.get("exp")),
            principal=found.principal or str(claims.get("sub", "")),
        )
    elif fault is None and _number(found.expires_at) is None:
        fault = f"an end of type {type(found.expires_at).__name__}, not seconds since 1970"
    return found, fault


def _types_fault(token: Token) -> str | None:
    value, extensions = token.value, token.extensions
    text = value.reveal() if isinstance(value, Secret) else value
    if not isinstance(text, str):
        return f"a token whose value has type {type(text).__name__}, not a text or Secret"
    try:
        dict(extensions or {})
    except (TypeError, ValueError):
        return f"extensions of type {type(extensions).__name__}, not texts by name"
    return None


def _time_fault(expires_at: float, now_s: float) -> str | None:
    if expires_at > _MILLISECONDS_MIN:
        return "an end in milliseconds; seconds since 1970 are wanted: divide by 1,000"
    if expires_at <= now_s:
        return f"a token that expired {int(now_s - expires_at)} s ago"
    return None


def _extensions_fault(extensions: Mapping[Any, Any]) -> str | None:
    for name, value in extensions.items():
        if not isinstance(name, str) or not _EXTENSION_NAME.fullmatch(name) or name == "auth":
            return f"an extension with the name {peer_text(str(name))!r}; names are letters"
        if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
            return f"an extension {name} whose value is not printable ASCII text"
    return None


def claims_of(token: Secret) -> Mapping[str, Any]:
    """Parse the claims of a JWT without verifying it.

    Args:
        token: Any token.

    Returns:
        The claims; empty if the token is not a JWT.
    """
    parts = token.reveal().split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = json.loads(payload)
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def described(token: Token, now_s: float) -> str:
    """Describe a rejected token, to help find the reason.

    Args:
        token: The rejected token.
        now_s: Seconds since 1970.

    Returns:
        Its expiry, and audience, issuer and subject if it is a JWT; nothing secret.
    """
    told = ["its end is not known"]
    if token.expires_at is not None:
        told = [f"expires in {int(token.expires_at - now_s)} s"]
    claims = claims_of(token.value)
    told += [
        f"{name} {peer_text(str(claims[claim]))!r}"
        for claim, name in (("aud", "audience"), ("iss", "issuer"), ("sub", "subject"))
        if claim in claims
    ]
    return ", ".join(told)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
