"""OAUTHBEARER: a bearer token in one message.

A broker that rejects a token responds with success and a JSON text; only after one more byte from
the client does it report the failed login. So a login has succeeded if the response is empty.

Thread-safety: one thread.
Source: RFC 7628; Kafka's OAuthBearerSaslClient (clients 4.3.1); KIP-255.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprod.errors import AuthenticationFailed, ConnectionFailed
from kprod.network.sasl.login import Login
from kprod.network.sasl.token_forms import described
from kprod.network.sasl.tokens import TokenStore
from kprod.peer_text import peer_text

if TYPE_CHECKING:
    from kprod.interfaces import Token

_END = b"\x01"
_REJECTION_BYTES_MAX = 64 << 10


class OAuthBearerLogin(Login):
    """The client side of one exchange."""

    __slots__ = ("_has_asked", "_now_s", "_said", "_store", "_token")

    def __init__(self, store: TokenStore, now_s: Callable[[], float]) -> None:
        """Start an exchange.

        Args:
            store: Provides the token.
            now_s: Seconds since 1970.
        """
        self._store = store
        self._now_s = now_s
        self._token: Token | None = None
        self._has_asked = False
        self._said = ""  # the broker's text about a rejected token

    def prepare(self, challenge: bytes | None, resume: Callable[[], None]) -> bool:
        """See `Login`."""
        if challenge is not None:
            return True
        self._token = self._store.valid_token()
        if self._token is not None:
            return True
        if self._has_asked:
            failure = self._store.failure or AuthenticationFailed("the token has expired already")
            raise AuthenticationFailed(f"there is no token: {failure}") from failure
        self._has_asked = True
        self._store.need(resume)
        return False

    def first(self) -> bytes:
        """See `Login`."""
        assert self._token is not None  # noqa: S101 - it is prepared
        extensions = "".join(f"{name}={text}\x01" for name, text in self._token.extensions.items())
        return b"".join(
            (
                b"n,,\x01auth=Bearer ",
                self._token.value.reveal().encode(),
                _END,
                extensions.encode(),
                _END,
            )
        )

    def answer(self, challenge: bytes) -> bytes | None:
        """See `Login`; a text is a rejection, whose error is requested by one more message."""
        if not challenge:
            return None
        if self._said:
            raise AuthenticationFailed("the broker rejected the token and then accepted it")
        self._said = _status(challenge)
        return _END

    def rejection(self, error: AuthenticationFailed) -> ConnectionFailed:
        """See `Login`; after the first rejected token, a fresh one is tried."""
        token = self._token
        status = f"; {self._said}" if self._said else ""
        of_it = "" if token is None else f" ({described(token, self._now_s())})"
        text = f"{error}{status}: the token{of_it}"
        if self._store.rejected(token):
            return ConnectionFailed(f"{text}; a fresh one is tried at once")
        return AuthenticationFailed(text)


def _status(challenge: bytes) -> str:
    if len(challenge) > _REJECTION_BYTES_MAX:
        return f"a text of {len(challenge)} bytes"
    try:
        said = json.loads(challenge)
        status = said.get("status") if isinstance(said, dict) else None
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, str):
        status = challenge.decode(errors="replace")
    return f"status {peer_text(status)!r}"
