"""Logging in, step by step, against a broker that is written down here."""

from collections.abc import Mapping
from typing import Any

import pytest

from kprod.config import Secret
from kprod.errors import AuthenticationFailed, UnsupportedVersion
from kprod.network.handshake import ApiVersionsStep, Handshake, Progress
from kprod.network.sasl.login import Login
from kprod.network.sasl.plain import PlainLogin
from kprod.network.sasl.sasl_steps import (
    ROUNDS_MAX,
    Identity,
    SaslAuthenticateStep,
    SaslHandshakeStep,
)
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec

IDENTITY = Identity("kafka:9092", "alice", "PLAIN")
VERSIONS: Mapping[int, tuple[int, int]] = {
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
}


class Endless(Login):
    """A login that always has something to say."""

    def first(self) -> bytes:
        """Begin."""
        return b"first"

    def answer(self, challenge: bytes) -> bytes:
        """Continue."""
        return b"re: " + challenge


class Exchange:
    """A handshake, and a broker's answers to it."""

    def __init__(
        self, *, login: Any = None, versions: Mapping[int, tuple[int, int]] = VERSIONS
    ) -> None:
        """Bring it past ApiVersions."""
        step = ApiVersionsStep()
        self.handshake = Handshake(
            step,
            (
                SaslHandshakeStep(IDENTITY, step),
                SaslAuthenticateStep(IDENTITY, step, login or PlainLogin("alice", Secret("pw"))),
            ),
        )
        keys = [
            {"api_key": key, "min_version": low, "max_version": high}
            for key, (low, high) in versions.items()
        ]
        assert not self.answer(ApiKey.API_VERSIONS, api_keys=keys)

    def answer(self, api_key: ApiKey, **body: Any) -> bool:
        """Send the next request, and take this response to it."""
        assert self.handshake.go_on(print) is Progress.ASK
        request, version = self.handshake.request(7, 0)
        assert request.api_key is api_key
        self.sent = request.body
        self.handshake.take(memoryview(response_codec(api_key, version).encode(body)))
        return self.handshake.go_on(print) is Progress.DONE

    def begin(self) -> "Exchange":
        """Agree on the mechanism."""
        assert not self.answer(ApiKey.SASL_HANDSHAKE, mechanisms=["PLAIN"])
        return self


def test_a_login() -> None:
    """Mechanism, then message; over when the broker says so."""
    exchange = Exchange()
    assert exchange.handshake.is_logging_in
    exchange.begin()
    assert exchange.sent == {"mechanism": "PLAIN"}
    assert exchange.answer(ApiKey.SASL_AUTHENTICATE, auth_bytes=b"")
    assert exchange.sent == {"auth_bytes": b"\0alice\0pw"}


def test_all_messages_end_by_one_instant() -> None:
    """The time of a request counts for the login as a whole."""
    exchange = Exchange()
    exchange.handshake.begin_login(1_000)
    assert exchange.handshake.request(7, 300)[0].timeout_ms == 700
    assert exchange.handshake.request(7, 5_000)[0].timeout_ms == 1


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            {"error_code": 33, "mechanisms": ["GSSAPI", "OAUTH\nBEARER"]},
            r"offers GSSAPI, OAUTH\\nBEARER, not PLAIN \(sasl_mechanism\)",
        ),
        ({"error_code": 33, "mechanisms": []}, "offers no mechanism"),
        ({"error_code": 34, "mechanisms": []}, "the listener takes no login"),
        ({"error_code": -1, "mechanisms": []}, "with error -1"),
    ],
)
def test_a_mechanism_is_rejected(body: dict[str, Any], text: str) -> None:
    """The text has what the broker offers; nothing else is tried."""
    with pytest.raises(AuthenticationFailed, match=text) as caught:
        Exchange().answer(ApiKey.SASL_HANDSHAKE, **body)
    assert str(caught.value).startswith("cannot connect to broker kafka:9092: ")


def test_a_login_is_rejected() -> None:
    """By the broker's text, made safe to print, and the user's name."""
    said = "bad\x1b[2J" + "x" * 1_000
    with pytest.raises(AuthenticationFailed, match=r"user 'alice' \(PLAIN\): bad\\x1b") as caught:
        Exchange().begin().answer(
            ApiKey.SASL_AUTHENTICATE, error_code=58, error_message=said, auth_bytes=b""
        )
    assert len(str(caught.value)) < 400
    assert "pw" not in str(caught.value)


def test_a_success_that_says_more_is_none() -> None:
    """The mechanism itself must be over."""
    with pytest.raises(AuthenticationFailed, match="answer to a PLAIN login must be empty"):
        Exchange().begin().answer(ApiKey.SASL_AUTHENTICATE, auth_bytes=b"more")


def test_a_broker_that_asks_for_ever_is_left() -> None:
    """After ten messages."""
    exchange = Exchange(login=Endless()).begin()
    for _ in range(ROUNDS_MAX - 1):
        assert not exchange.answer(ApiKey.SASL_AUTHENTICATE, auth_bytes=b"?")
    assert exchange.sent == {"auth_bytes": b"re: ?"}
    with pytest.raises(AuthenticationFailed, match="not over after 10 messages"):
        exchange.answer(ApiKey.SASL_AUTHENTICATE, auth_bytes=b"?")


def test_bare_tokens_are_not_spoken() -> None:
    """SaslHandshake in version 0 only is a broker before Kafka 1.0."""
    exchange = Exchange(versions={ApiKey.SASL_HANDSHAKE: (0, 0)})
    with pytest.raises(UnsupportedVersion, match="SASL_HANDSHAKE"):
        exchange.handshake.request(7, 0)
