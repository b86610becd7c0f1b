"""Logins with signed tokens, frame by frame at both brokers.

Source: Kafka's OAuthBearerSaslServer (4.3); RFC 7628; KIP-255, KIP-368.
"""

import json
from collections.abc import Generator
from typing import Any

import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.protocol.error_table import ErrorCode
from tests.conformance.sides import Side, Sides
from tests.conformance.test_logins_kafka import agreed, authenticate, begin, is_closed, is_served
from tests.conformance.wire import Wire
from tests.plugins.kafka_secured import AUDIENCE, ISSUER, SESSIONS_MS, SecuredKafka

SESSION_MS = SESSIONS_MS["REAUTH"]
HOUR_MS = 3_600_000
SLACK_MS = 60_000
END = b"\x01"


def sides_of(kafka: SecuredKafka, listener: str, session_ms: int) -> Generator[Sides]:
    """Both brokers, which accept tokens of one key.

    Yields:
        Them, ready.
    """
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        mechanisms=("OAUTHBEARER",),
        token_keys={"keys": [kafka.token_key.as_dict(private=False)]},
        token_audience=AUDIENCE,
        token_issuer=ISSUER,
        session_lifetime_ms=session_ms,
    )
    with EmbeddedCluster(1, security=security) as cluster:
        here = Side("embedded", cluster.bootstrap_servers)
        yield Sides(here, Side("kafka", kafka.secured_address(listener)))


@pytest.fixture(scope="module")
def token_sides(kafka_secured: SecuredKafka) -> Generator[Sides]:
    """Logins for as long as the token.

    Yields:
        Both brokers.
    """
    yield from sides_of(kafka_secured, "SASL_PLAINTEXT", 0)


@pytest.fixture(scope="module")
def short_token_sides(kafka_secured: SecuredKafka) -> Generator[Sides]:
    """Logins for `SESSION_MS` at most.

    Yields:
        Both brokers.
    """
    yield from sides_of(kafka_secured, "REAUTH", SESSION_MS)


def message(token: str, more: str = "") -> bytes:
    """A client's first message."""
    return f"n,,\x01auth=Bearer {token}\x01{more}\x01".encode()


def log_in(wire: Wire, first: bytes) -> dict[str, Any]:
    """Both requests; returns the second's answer."""
    assert begin(wire, "OAUTHBEARER")["error_code"] == ErrorCode.NONE
    return authenticate(wire, first)


@pytest.mark.parametrize("more", ["", "logicalCluster=lkc-1\x01"])
def test_a_right_token(token_sides: Sides, kafka_secured: SecuredKafka, more: str) -> None:
    """It lets in for the rest of its life, also where logins have no end; extensions are taken."""

    def case(wire: Wire) -> object:
        answer = log_in(wire, message(kafka_secured.token("alice"), more))
        is_rest = HOUR_MS - SLACK_MS < answer["session_lifetime_ms"] <= HOUR_MS
        return answer["error_code"], answer["auth_bytes"], is_rest, is_served(wire)

    assert agreed(token_sides, case) == (ErrorCode.NONE, b"", True, True)


@pytest.mark.parametrize("expires_in_s", [1, 3_600])
def test_the_earlier_of_both_ends(
    short_token_sides: Sides, kafka_secured: SecuredKafka, expires_in_s: int
) -> None:
    """Of the login and of the token."""

    def case(wire: Wire) -> object:
        token = kafka_secured.token("alice", expires_in_s=expires_in_s)
        lifetime_ms = log_in(wire, message(token))["session_lifetime_ms"]
        return lifetime_ms == SESSION_MS, 0 < lifetime_ms <= 1_000

    assert agreed(short_token_sides, case) == (expires_in_s > 1, expires_in_s == 1)


@pytest.mark.parametrize("wrong", [{"aud": "another"}, {"iss": "https://another.test"}, {"exp": 1}])
def test_a_rejected_token(
    token_sides: Sides, kafka_secured: SecuredKafka, wrong: dict[str, Any]
) -> None:
    """First without an error, but with a status; the client's next byte gets the error."""

    def case(wire: Wire) -> object:
        first = log_in(wire, message(kafka_secured.token("alice", **wrong)))
        second = authenticate(wire, END)
        status = json.loads(first["auth_bytes"])["status"]
        is_told = status in str(second["error_message"])
        return first["error_code"], status, second["error_code"], is_told, is_closed(wire)

    rejected = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert agreed(token_sides, case) == (ErrorCode.NONE, "invalid_token", rejected, True, True)


@pytest.mark.parametrize("first", [b"", b"n,,\x01\x01", b"\0alice\0alice-secret"])
def test_a_malformed_message(token_sides: Sides, first: bytes) -> None:
    """Rejected at once."""

    def case(wire: Wire) -> object:
        return log_in(wire, first)["error_code"], is_closed(wire)

    assert agreed(token_sides, case) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)
