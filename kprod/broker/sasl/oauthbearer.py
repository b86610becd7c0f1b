"""The server side of OAUTHBEARER: one message with a token.

The response to a rejected token has no error code but a JSON text; the client acknowledges it, and
then gets the error code.

Thread-safety: the broker's thread.
Source: RFC 7628; Kafka's OAuthBearerSaslServer and OAuthBearerClientInitialResponse (4.3).
"""

import re

from kprod.broker.rejection import Rejected
from kprod.broker.sasl.bearer_tokens import BearerTokens
from kprod.broker.sasl.verdict import Verdict, rejection
from kprod.protocol.error_table import ErrorCode

MECHANISM = "OAUTHBEARER"
_ACKNOWLEDGED = b"\x01"
_STATUS = '{"status":"invalid_token"}'
_MESSAGE = re.compile(r"n,(?:a=([^,\x01]*))?,\x01((?:[A-Za-z]+=[^\x01]*\x01)+)\x01")
_BEARER = re.compile(r"[Bb]earer +([-A-Za-z0-9._~+/]+=*)")


class OauthBearerVerifier:
    """Verifies one token; a rejection must be acknowledged."""

    __slots__ = ("_is_rejected", "_tokens")

    def __init__(self, tokens: BearerTokens) -> None:
        """Create a verifier."""
        self._tokens = tokens
        self._is_rejected = False

    def take(self, message: bytes) -> Verdict:
        """Implement `Verifier.take`."""
        if self._is_rejected:
            if message == _ACKNOWLEDGED:
                raise Rejected(ErrorCode.SASL_AUTHENTICATION_FAILED, _STATUS)
            raise rejection(MECHANISM)
        identity, token = _read(message)
        subject = self._tokens.subject(token)
        if subject is None:
            self._is_rejected = True
            return Verdict(_STATUS.encode())
        if identity and identity != subject.name:
            raise Rejected(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"Authentication failed: Client requested an authorization id ({identity}) that is"
                f" different from the token's principal name ({subject.name})",
            )
        return Verdict(b"", subject.name, subject.lifetime_ms)


def _read(message: bytes) -> tuple[str, str]:
    match = _MESSAGE.fullmatch(message.decode(errors="replace"))
    if match is None:
        raise rejection(MECHANISM)
    identity, text = match.groups()
    pairs = [pair.split("=", 1) for pair in text.split("\x01")[:-1]]
    fields = dict(pairs)
    bearer = _BEARER.fullmatch(fields.get("auth", ""))
    if bearer is None or len(fields) < len(pairs):
        raise rejection(MECHANISM)
    return identity or "", bearer[1]
