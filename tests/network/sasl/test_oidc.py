"""OIDC servers that work, and that misbehave: each is an error in time."""

import json
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from kprod.clock import SystemClock
from kprod.config import SecurityConfig
from kprod.errors import AuthenticationFailed
from kprod.network.sasl.oidc import RESPONSE_BYTES_MAX, OidcClient

Act = Callable[[BaseHTTPRequestHandler], None]


def answer(status: int, content: bytes, **headers: str) -> Act:
    """Answer like this."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    return act


def drip(handler: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        for _ in range(200):
            handler.wfile.write(b"x")
            threading.Event().wait(0.05)
    except OSError:
        return


Trust = Callable[[bytes, Path], dict[str, str]]


def in_a_file(pem: bytes, path: Path) -> dict[str, str]:
    """An authority in a PEM file of its own."""
    path.write_bytes(pem)
    return {"https_cafile": str(path)}


def in_pkcs12(pem: bytes, path: Path) -> dict[str, str]:
    """An authority in a truststore with a password, which brokers' certificates share."""
    authorities = load_pem_x509_certificates(pem)
    encryption = BestAvailableEncryption(b"canary")
    path.write_bytes(serialize_key_and_certificates(None, None, None, authorities, encryption))
    return {"ssl_cafile": str(path), "ssl_truststore_password": "canary"}


def in_a_text(pem: bytes, _path: Path) -> dict[str, str]:
    """An authority in a text with a comment."""
    return {"ssl_cadata": f"für alle\n{pem.decode()}"}


@contextmanager
def served(
    act: Act, directory: Path, trust: Trust = in_a_file
) -> Generator[tuple[OidcClient, list[Any]]]:
    """Serve, and make a client.

    Yields:
        The client, and what it has asked.
    """
    ca, asked = trustme.CA(), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, body.decode(), self.headers["Authorization"]))
            act(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    config = SecurityConfig.parse(
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": f"https://127.0.0.1:{server.server_port}/t?a=b",
            "sasl_oauthbearer_client_id": "kp:rod",
            "sasl_oauthbearer_client_secret": "can ary",
            "sasl_oauthbearer_scope": "a b",
            **trust(ca.cert_pem.bytes(), directory / "authority"),
        }
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield OidcClient(config, SystemClock(), wait_s=1.0), asked
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


@pytest.mark.parametrize("trust", [in_a_file, in_pkcs12, in_a_text])
def test_a_token_is_given(tmp_path: Path, trust: Trust) -> None:
    """For the client's id and secret, each encoded as in a form; by authorities in every form."""
    content = json.dumps({"access_token": "abc", "expires_in": 60}).encode()
    with served(answer(200, content), tmp_path, trust) as (client, asked):
        token = client.token()
    assert token.value.reveal() == "abc"
    assert token.expires_at is not None
    expected = "Basic a3AlM0Fyb2Q6Y2FuK2FyeQ=="
    assert asked == [("/t?a=b", "grant_type=client_credentials&scope=a+b", expected)]


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (answer(302, b"", Location="http://169.254.169.254/"), "HTTP status 302"),
        (answer(401, b'{"error": "invalid_client"}'), "HTTP status 401: invalid_client"),
        (answer(200, b"{}"), "no JSON object that has an access_token"),
        (answer(200, b"[" * 50_000), "no JSON object"),
        (answer(200, b"x" * (RESPONSE_BYTES_MAX + 1)), "more than 65536 bytes"),
        (answer(200, b'{"access_token": "canary", "expires_in": -5}'), "expires_in=-5"),
        (answer(200, b'{"access_token": "canary", "expires_in": "soon"}'), "is not a number"),
        (drip, "failed: "),
    ],
)
def test_a_server_that_misbehaves(act: Act, text: str, tmp_path: Path) -> None:
    """One request, one error that names the host and shows nothing secret."""
    with (
        served(act, tmp_path) as (client, asked),
        pytest.raises(AuthenticationFailed, match=r"the token endpoint at 127\.0") as caught,
    ):
        client.token()
    assert text in str(caught.value)
    assert "can" not in str(caught.value).replace("cannot", "")
    assert len(asked) == 1


def test_an_end_beyond_reason_is_bounded(tmp_path: Path) -> None:
    """To a year."""
    content = b'{"access_token": "abc", "expires_in": 1e30}'
    with served(answer(200, content), tmp_path) as (client, _):
        expires_at = client.token().expires_at
    assert expires_at is not None
    assert expires_at < SystemClock().timestamp_ms() / 1_000 + 366 * 86_400
