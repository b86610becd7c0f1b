"""Delegation tokens: a login by SCRAM with one, and how long each lasts."""

import base64
import hashlib
import hmac
from typing import Any

import pytest

from kprod.broker import BrokerSecurity
from kprod.broker.sasl.delegation_tokens import EXPIRY_MS, DelegationToken, DelegationTokens
from kprod.clock import ManualClock
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World

SECURITY = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"alice": "alice-secret"})


def log_in(world: World, token: DelegationToken, extension: str) -> dict[str, Any]:
    """The last response of a login by SCRAM-SHA-256, with the arithmetic of RFC 5802."""
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


def made(world: World, lifetime_ms: int = EXPIRY_MS) -> DelegationToken:
    """A token of alice's."""
    tokens = world.cluster._kprod.engine.identities.delegation_tokens
    created: DelegationToken = tokens.create("alice", lifetime_ms)
    return created


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


def test_a_token_that_is_over_is_rejected() -> None:
    """At its last millisecond it is good."""
    world = World(brokers=1, security=SECURITY)
    token = made(world, 1_000)
    world.advance(999)
    assert log_in(world, token, ",tokenauth=true")["session_lifetime_ms"] == 1
    world.advance(1)
    answer = log_in(world, token, ",tokenauth=true")
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_shows_no_secret_and_goes_when_others_need_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that are over go first, then the oldest."""
    monkeypatch.setattr("kprod.broker.sasl.delegation_tokens.TOKENS_MAX", 2)
    clock = ManualClock()
    tokens = DelegationTokens(clock)
    oldest, over, *_ = made_ones = [tokens.create("alice"), tokens.create("bob", 1)]
    assert repr(oldest.secret) not in repr(oldest)
    clock.advance(1)
    made_ones.append(tokens.create("carol"))
    assert tokens.valid(oldest.token_id) is oldest
    assert tokens.valid(over.token_id) is None
    made_ones.append(tokens.create("dave"))
    assert [tokens.valid(it.token_id) is it for it in made_ones] == [False, False, True, True]
