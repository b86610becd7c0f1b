"""Tokens at the embedded broker: by other clients, and good and bad ones by raw requests."""

import asyncio
import base64
import json
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer
from joserfc import jwt
from joserfc.jwk import RSAKey
from kafka import KafkaProducer

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World

SECURITY = BrokerSecurity(
    protocol="SASL_PLAINTEXT",
    mechanisms=("OAUTHBEARER",),
    token_audience="kafka",  # noqa: S106 - no password
    token_issuer="https://idp.test",  # noqa: S106 - no password
)
REJECTED = b'{"status":"invalid_token"}'


def served() -> EmbeddedCluster:
    """One broker."""
    return EmbeddedCluster(1, {"orders": 1}, security=SECURITY)


def message(token: str, identity: str = "", extensions: str = "") -> bytes:
    """The client's initial message."""
    return f"n,{identity},\1auth=Bearer {token}\1{extensions}\1".encode()


def open_world(**security: Any) -> tuple[World, Client]:
    """A cluster on a manual clock, and a connection where a token is awaited."""
    wanted = {"protocol": "SASL_PLAINTEXT", "mechanisms": ("OAUTHBEARER",), **security}
    world = World(security=BrokerSecurity(**wanted))
    client = world.client()
    client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"})
    return world, client


def authenticate(client: Client, auth_bytes: bytes) -> dict[str, Any]:
    """SaslAuthenticate."""
    return client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": auth_bytes})


def test_confluent_kafka_logs_in() -> None:
    """By its callback."""
    with served() as cluster:
        producer = ConfluentProducer(cluster.client_settings(user="bob", names="confluent"))
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
        assert len(cluster.records("orders")[0]) == 1


def test_kafka_python_logs_in() -> None:
    """By its provider."""
    with served() as cluster:
        producer = KafkaProducer(**cluster.client_settings(names="kafka"))
        try:
            producer.send("orders", b"one").get(60)
        finally:
            producer.close()
        assert len(cluster.records("orders")[0]) == 1


def test_aiokafka_logs_in() -> None:
    """By its provider."""

    async def produce(settings: dict[str, Any]) -> None:
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"one")
        finally:
            await producer.stop()

    with served() as cluster:
        asyncio.run(produce(cluster.client_settings(names="aiokafka")))
        assert len(cluster.records("orders")[0]) == 1


def test_a_session_lasts_as_long_as_the_token() -> None:
    """Or as the broker's limit, whichever is shorter."""
    for limit_ms, expected_ms in ((0, 60_000), (5_000, 5_000), (90_000, 60_000)):
        world, client = open_world(session_lifetime_ms=limit_ms)
        answer = authenticate(client, message(world.cluster.token("bob", expires_in_s=60)))
        assert (answer["error_code"], answer["session_lifetime_ms"]) == (0, expected_ms)
        world.advance(expected_ms - 1)
        assert client.ask(ApiKey.METADATA, 9, {"topics": []})["brokers"]
        world.advance(1)
        client.send(ApiKey.METADATA, 9, {"topics": []})
        assert client.stream.closed


def reject(client: Client, auth_bytes: bytes) -> None:
    """A token is answered with a text, and with the code when that was read."""
    answer = authenticate(client, auth_bytes)
    assert (answer["error_code"], bytes(answer["auth_bytes"])) == (ErrorCode.NONE, REJECTED)
    answer = authenticate(client, b"\x01")
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer["error_message"] == REJECTED.decode()
    assert client.stream.closed


@pytest.mark.parametrize(
    "claims",
    [
        {"expires_in_s": -1},
        {"expires_in_s": 0},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": None},
        {"iss": "https://other.test"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"exp": None},
        {"exp": "soon"},
    ],
)
def test_a_token_with_wrong_claims_is_rejected(claims: dict[str, Any]) -> None:
    """Each by the same text."""
    world, client = open_world(token_audience="kafka", token_issuer="https://idp.test")  # noqa: S106
    reject(client, message(world.cluster.token("bob", **claims)))


def test_one_of_several_audiences_will_do() -> None:
    """And what a token says beside."""
    world, client = open_world(token_audience="kafka")  # noqa: S106 - no password
    token = world.cluster.token("bob", aud=["other", "kafka"], scope="all")
    assert authenticate(client, message(token))["error_code"] == ErrorCode.NONE


def _unsecured(**claims: object) -> str:
    parts = [json.dumps(it).encode() for it in ({"alg": "none"}, claims)]
    return "".join(base64.urlsafe_b64encode(it).decode().rstrip("=") + "." for it in parts)


@pytest.mark.parametrize(
    "token", ["x", "a.b.c", "..", _unsecured(sub="bob", exp=4e9), "eyJhbGciOiJIUzI1NiJ9.e30.AAAA"]
)
def test_a_token_that_is_not_signed_is_rejected(token: str) -> None:
    """Nor one that is no token at all."""
    _, client = open_world()
    reject(client, message(token))


def _joined(*parts: bytes) -> str:
    return ".".join(base64.urlsafe_b64encode(it).decode().rstrip("=") for it in parts)


@pytest.mark.parametrize(
    "token",
    [
        _joined(b'{"alg":"ES256","crit":5}', b"{}", b"x"),
        _joined(b'{"alg":"ES256","crit":[[]]}', b"{}", b"x"),
        _joined(b'{"alg":"ES256","a":' + b"[" * 100_000, b"{}", b"x"),
        _joined(b'{"alg":"none"}', b"[" * 100_000, b""),
        _joined(b'{"alg":"none"}', b'{"sub":"bob","exp":NaN}', b""),
        _joined(b'{"alg":"none"}', b'{"sub":"bob","exp":-Infinity}', b""),
        _joined(b'{"alg":"none"}', b'{"sub":"bob","exp":1e400}', b""),
        _joined(b'{"alg":"none"}', b'{"sub":"\\ud800","exp":4e9}', b""),
    ],
)
def test_a_token_of_any_shape_is_rejected(token: str) -> None:
    """A broker that fails at one would be told as a fault of the cluster's own."""
    world, client = open_world(allow_unsecured_tokens=True)
    reject(client, message(token))
    assert not world.cluster.failures


def test_a_token_that_another_cluster_signed_is_rejected() -> None:
    """Each has a key of its own."""
    _, client = open_world()
    other, _ = open_world()
    reject(client, message(other.cluster.token("bob")))


def test_a_token_without_a_signature_where_that_is_wanted() -> None:
    """The claims count all the same."""
    _, client = open_world(allow_unsecured_tokens=True)
    answer = authenticate(client, message(_unsecured(sub="bob", exp=4e9)))
    assert answer["error_code"] == ErrorCode.NONE
    _, client = open_world(allow_unsecured_tokens=True)
    reject(client, message(_unsecured(sub="bob", exp=1e9)))


def test_somebody_elses_keys() -> None:
    """As a JWKS; then the cluster's own key counts no more."""
    key = RSAKey.generate_key(2048, {"kid": "theirs"})
    keys = {"keys": [key.as_dict(private=False)]}
    token = jwt.encode({"alg": "RS256", "kid": "theirs"}, {"sub": "bob", "exp": 4e9}, key)
    _, client = open_world(token_keys=keys)
    assert authenticate(client, message(token))["error_code"] == ErrorCode.NONE
    world, client = open_world(token_keys=keys)
    reject(client, message(world.cluster.token("bob")))


@pytest.mark.parametrize(
    "auth_bytes",
    [
        b"",
        b"n,,",
        b"n,,\1\1",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1auth=Basic abc\1\1",
        b"y,,\1auth=Bearer abc\1\1",
        b"n,,\1auth=Bearer abc\1",
        b"n,,\1auth=Bearer abc\1auth=Bearer abc\1\1",
        b"n,,\1a1=b\1auth=Bearer abc\1\1",
        b"\xff\xfe",
    ],
)
def test_a_malformed_message_is_rejected_at_once(auth_bytes: bytes) -> None:
    """By the general text."""
    _, client = open_world()
    answer = authenticate(client, auth_bytes)
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "invalid credentials with SASL mechanism OAUTHBEARER" in answer["error_message"]
    assert client.stream.closed


def test_an_identity_beside_the_token() -> None:
    """It may be the subject's, with extensions or not, and no other."""
    world, client = open_world()
    sent = message(world.cluster.token("bob"), "a=bob", "traceId=abc\1")
    assert authenticate(client, sent)["error_code"] == ErrorCode.NONE
    world, client = open_world()
    answer = authenticate(client, message(world.cluster.token("bob"), "a=alice"))
    assert "different from the token's principal name (bob)" in answer["error_message"]


def test_a_cluster_without_tokens_says_so() -> None:
    """And how to have one with them."""
    with EmbeddedCluster(1) as cluster, pytest.raises(ConfigError, match="OAUTHBEARER"):
        cluster.token("bob")
