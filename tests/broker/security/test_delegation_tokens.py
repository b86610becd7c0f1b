"""Delegation tokens: a login by SCRAM with one, and how long each lasts."""

import base64
import hashlib
import hmac
from typing import Any

import pytest

from kprod.broker import BrokerSecurity
from kprod.broker.sasl.delegation_tokens import (
    EXPIRY_MS,
    MAX_LIFETIME_MS,
    DelegationToken,
    DelegationTokens,
)
from kprod.clock import ManualClock
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World

SECURITY = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"alice": "alice-secret"})


def log_in(world: World, token: DelegationToken, extension: str) -> dict[str, Any]:
    """The last answer of a login by SCRAM-SHA-256, with the arithmetic of RFC 5802."""
    client = world.client()
    client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
    first = f"n={token.token_id},r=abcdefghijkl{extension}"
    ask = {"auth_bytes": f"n,,{first}".encode()}
    answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, ask)
    if answer["error_code"]:
        return answer
    challenge = bytes(answer["auth_bytes"]).decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    password = base64.b64encode(token.secret)
    salt = base64.b64decode(fields["s"])
    salted = hashlib.pbkdf2_hmac("sha256", password, salt, int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    final = f"c=biws,r={fields['r']}"
    signed = f"{first},{challenge},{final}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    ask = {"auth_bytes": f"{final},p={proof}".encode()}
    return client.ask(ApiKey.SASL_AUTHENTICATE, 2, ask)


def made(world: World, max_lifetime_ms: int = -1) -> DelegationToken:
    """A token of alice's."""
    tokens = world.cluster._kprod.engine.identities.delegation_tokens
    return tokens.create("alice", "alice", (), max_lifetime_ms)


def test_a_login_with_a_token_lasts_as_long_as_the_token() -> None:
    """Even where sessions do not end; Kafka 4.3.1 does so too."""
    world = World(brokers=1, security=SECURITY)
    answer = log_in(world, made(world), ",tokenauth=true")
    assert (answer["error_code"], answer["session_lifetime_ms"]) == (ErrorCode.NONE, EXPIRY_MS)


@pytest.mark.parametrize("extension", ["", ",tokenauth=false"])
def test_a_token_without_the_extension_is_an_unknown_user(extension: str) -> None:
    """Its secret is no password."""
    world = World(brokers=1, security=SECURITY)
    answer = log_in(world, made(world), extension)
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_that_is_over_is_refused() -> None:
    """At its last millisecond it is good."""
    world = World(brokers=1, security=SECURITY)
    token = made(world, 1_000)
    world.advance(999)
    assert log_in(world, token, ",tokenauth=true")["session_lifetime_ms"] == 1
    world.advance(1)
    answer = log_in(world, token, ",tokenauth=true")
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_is_renewed_up_to_its_end() -> None:
    """And let expire; who may is said by it, and its secret is not shown."""
    clock = ManualClock()
    tokens = DelegationTokens(clock)
    token = tokens.create("alice", "alice", ("bob",), MAX_LIFETIME_MS + 1)
    assert token.ends_ms - token.issued_ms == MAX_LIFETIME_MS
    assert tokens.renew(token, MAX_LIFETIME_MS * 2) == token.ends_ms
    assert tokens.renew(token, 5) == token.issued_ms + 5
    assert [token.is_renewed_by(user) for user in ("alice", "bob", "carol")] == [True, True, False]
    assert tokens.by_secret(token.secret) is token
    assert list(tokens) == [token]
    tokens.expire(token, -1)
    assert tokens.valid(token.token_id) is None
    assert not list(tokens)
    assert repr(token.secret) not in repr(token)
