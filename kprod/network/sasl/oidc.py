"""Fetches tokens by the OIDC client credentials grant: one POST to the configured URL.

The standard library's `http.client` follows no redirects and uses no proxies of the environment,
which is required here: only the configured URL is requested, over TLS, and the response is limited
in size and time.

Thread-safety: the login thread, one call at a time.
Source: RFC 6749 section 4.4, section 2.3.1 for the encoding of credentials; KIP-768, KIP-1139;
    CVE-2025-27817 for the risks of a URL in a setting.
"""

import base64
import http.client
import io
import json
import math
import ssl
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from kprod.clock import Clock, Deadline
from kprod.config import SecurityConfig
from kprod.errors import AuthenticationFailed, ConfigError
from kprod.interfaces import Token
from kprod.network.tls_context import load_authorities, load_authority_text
from kprod.peer_text import peer_text
from kprod.secret import Secret

RESPONSE_BYTES_MAX = 64 << 10
WAIT_S = 10.0
_EXPIRES_S_MAX = 365 * 24 * 3_600
_HTTPS_PORT = 443


class OidcClient:
    """Fetches tokens."""

    __slots__ = ("_clock", "_config", "_wait_s")

    def __init__(self, config: SecurityConfig, clock: Clock, *, wait_s: float = WAIT_S) -> None:
        """Set the server's URL and the client's credentials.

        Args:
            config: Settings with the URL, the client id and its secret.
            clock: The wall clock.
            wait_s: Time limit for the whole exchange, in seconds.
        """
        self._config = config
        self._clock = clock
        self._wait_s = wait_s

    def token(self) -> Token:
        """Fetch a token; blocks for ten seconds at most.

        Returns:
            The server's token, with the configured extensions.

        Raises:
            AuthenticationFailed: There is no token; the text names the URL's host, and nothing
                secret.
        """
        url = self._config.sasl_oauthbearer_token_endpoint_url or ""
        host = urlsplit(url).hostname or ""
        try:
            # The response has a token, and is no local of this frame.
            token, fault = self._read(*self._exchange(url))
        except (OSError, http.client.HTTPException, ConfigError) as error:
            why = peer_text(str(error) or type(error).__name__)
            raise AuthenticationFailed(f"the token endpoint at {host} failed: {why}") from None
        if fault is not None:
            raise AuthenticationFailed(f"the token endpoint at {host} {fault}")
        return token

    def _exchange(self, url: str) -> tuple[int, bytes]:
        parts = urlsplit(url)
        deadline = Deadline(self._wait_s)
        connection = _TimedConnection(
            parts.hostname or "",
            parts.port or _HTTPS_PORT,
            context=self._context(),
            deadline=deadline,
        )
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        try:
            connection.request("POST", path, body=self._form(), headers=self._headers())
            response = connection.getresponse()
            content = response.read(RESPONSE_BYTES_MAX + 1)
        finally:
            connection.end()
        return response.status, content

    def _context(self) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if config.https_cafile is not None:
            load_authorities(context, "https_cafile", config.https_cafile)
        elif config.ssl_cafile is not None:
            password = config.ssl_truststore_password
            load_authorities(context, "ssl_cafile", config.ssl_cafile, password)
        elif config.ssl_cadata is not None:
            load_authority_text(context, "ssl_cadata", config.ssl_cadata)
        else:
            context.load_default_certs()
        return context

    def _form(self) -> str:
        fields = {"grant_type": "client_credentials"}
        if self._config.sasl_oauthbearer_scope is not None:
            fields["scope"] = self._config.sasl_oauthbearer_scope
        return urlencode(fields)

    def _headers(self) -> dict[str, str]:
        return {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            "Authorization": f"Basic {_basic(self._config)}",
        }

    def _read(self, status: int, content: bytes) -> tuple[Token, str | None]:
        """Parse the response or return a fault, so that no exception's frame contains a token."""
        nothing = Token("")
        if len(content) > RESPONSE_BYTES_MAX:
            return nothing, f"answered with more than {RESPONSE_BYTES_MAX} bytes"
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if status != http.client.OK:
            return nothing, f"answered with HTTP status {status}{_reason(answer)}"
        if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
            return nothing, "answered with no JSON object that has an access_token"
        expires_at, fault = _end(answer.get("expires_in"), self._clock)
        value = Secret(answer["access_token"])
        extensions = self._config.sasl_oauthbearer_extensions or {}
        return Token(value, expires_at, "", extensions), fault


def _basic(config: SecurityConfig) -> str:
    """Encode the credentials as RFC 6749 requires: each part form-encoded, then both in base64."""
    secret = config.sasl_oauthbearer_client_secret or Secret("")
    client_id = quote_plus(config.sasl_oauthbearer_client_id or "")
    return base64.b64encode(f"{client_id}:{quote_plus(secret.reveal())}".encode()).decode()


def _reason(answer: object) -> str:
    if not isinstance(answer, dict):
        return ""
    told = [str(answer[name]) for name in ("error", "error_description") if name in answer]
    return f": {peer_text('; '.join(told))}" if told else ""


def _end(expires_in: object, clock: Clock) -> tuple[float | None, str | None]:
    if expires_in is None:
        return None, None
    if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdecimal():
        expires_in = float(expires_in[:20])
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        return None, "answered with an expires_in that is not a number"
    if not expires_in > 0 or (isinstance(expires_in, float) and not math.isfinite(expires_in)):
        return None, f"answered with expires_in={peer_text(str(expires_in))}"
    return clock.timestamp_ms() / 1_000 + min(expires_in, _EXPIRES_S_MAX), None


class _TimedConnection(http.client.HTTPSConnection):
    """A connection whose response must end by a deadline, however slowly its bytes arrive."""

    def __init__(
        self, host: str, port: int, *, context: ssl.SSLContext, deadline: Deadline
    ) -> None:
        super().__init__(host, port, context=context, timeout=_left_s(deadline))
        self._deadline = deadline
        self._below: ssl.SSLSocket | None = None

    def connect(self) -> None:
        super().connect()
        self._below = self.sock
        self.sock: Any = _TimedSocket(self.sock, self._deadline)

    def end(self) -> None:
        """Close the socket."""
        self.close()
        if self._below is not None:
            self._below.close()


class _TimedSocket:
    """The part of a socket that `http.client` uses."""

    def __init__(self, below: ssl.SSLSocket, deadline: Deadline) -> None:
        self._below = below
        self._deadline = deadline

    def sendall(self, content: bytes) -> None:
        self._below.settimeout(_left_s(self._deadline))
        self._below.sendall(content)

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - always "rb"
        return io.BufferedReader(_TimedReader(self._below, self._deadline))

    def close(self) -> None:
        """Do nothing: the response is read after `http.client` has closed its socket."""


class _TimedReader(io.RawIOBase):
    """Reads of a socket that fail at the deadline."""

    def __init__(self, below: ssl.SSLSocket, deadline: Deadline) -> None:
        super().__init__()
        self._below = below
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        self._below.settimeout(_left_s(self._deadline))
        return self._below.recv_into(buffer)


def _left_s(deadline: Deadline) -> float:
    left_s = deadline.left_s() or 0.0
    if left_s <= 0:
        raise TimeoutError("no response in time")
    return left_s
