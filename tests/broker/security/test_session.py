"""Logins, by other clients and by raw requests: let in, rejected, or closed without a response."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "pa①ss wörd"  # noqa: S105 - of a test; a client that normalises it cannot log in
USERS = {"alice": "alice-secret", "a=b,c": PASSWORD}
RIGHT = b"\0alice\0alice-secret"
HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE


@contextmanager
def served(protocol: str) -> Generator[EmbeddedCluster]:
    """One broker that wants a login."""
    security = BrokerSecurity(protocol=protocol, users=USERS)
    with EmbeddedCluster(1, {"orders": 1}, security=security) as cluster:
        yield cluster


def values(cluster: EmbeddedCluster) -> list[bytes | None]:
    """The log's values."""
    return [record.value for record in cluster.records("orders")[0]]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_confluent_kafka_logs_in(protocol: str, mechanism: str) -> None:
    """With each mechanism, and a name and a password of any characters."""
    with served(protocol) as cluster:
        settings = cluster.client_settings(user="a=b,c", mechanism=mechanism, names="confluent")
        producer = ConfluentProducer(settings)
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
        assert values(cluster) == [b"one"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(mechanism: str) -> None:
    """With each mechanism."""
    with served("SASL_PLAINTEXT") as cluster:
        producer = KafkaProducer(**cluster.client_settings(mechanism=mechanism, names="kafka"))
        try:
            producer.send("orders", b"one").get(60)
        finally:
            producer.close()
        assert values(cluster) == [b"one"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(mechanism: str) -> None:
    """With each mechanism."""

    async def produce(settings: dict[str, Any]) -> None:
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"one")
        finally:
            await producer.stop()

    with served("SASL_PLAINTEXT") as cluster:
        asyncio.run(produce(cluster.client_settings(mechanism=mechanism, names="aiokafka")))
        assert values(cluster) == [b"one"]


def test_confluent_kafka_is_rejected_with_a_wrong_password() -> None:
    """Its own error for that."""
    with served("SASL_PLAINTEXT") as cluster:
        settings = cluster.client_settings(names="confluent") | {"sasl.password": "wrong-secret"}
        errors: list[KafkaError] = []
        producer = ConfluentProducer(settings | {"error_cb": errors.append})
        for _ in range(600):
            producer.poll(0.1)
            if errors:
                break
        assert errors[0].code() == KafkaError._AUTHENTICATION


def open_world(**security: Any) -> tuple[World, Client]:
    """A cluster on a manual clock, and a connection."""
    wanted = BrokerSecurity(**{"protocol": "SASL_PLAINTEXT", "users": USERS, **security})
    world = World(security=wanted)
    return world, world.client()


def log_in(client: Client, message: bytes = RIGHT) -> dict[str, Any]:
    """Both requests; returns the second's answer."""
    assert client.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})["error_code"] == ErrorCode.NONE
    return client.ask(AUTHENTICATE, 2, {"auth_bytes": message})


def is_closed(client: Client) -> bool:
    """Whether the broker has closed it, and said nothing more."""
    return client.stream.closed and not client.answers()


def ask_metadata(client: Client) -> None:
    """Any request that needs a login."""
    client.send(ApiKey.METADATA, 9, {"topics": []})


def test_nothing_but_the_login_is_served_before_it() -> None:
    """ApiVersions is; anything else closes the connection, and nothing is said."""
    _, client = open_world()
    assert client.ask(ApiKey.API_VERSIONS, 0, {})["error_code"] == ErrorCode.NONE
    ask_metadata(client)
    assert is_closed(client)


def test_after_a_login_everything_is_served() -> None:
    """For as long as the connection stands."""
    world, client = open_world()
    answer = log_in(client)
    assert (answer["error_code"], answer["session_lifetime_ms"]) == (ErrorCode.NONE, 0)
    world.advance(10_000)
    assert client.ask(ApiKey.METADATA, 9, {"topics": []})["brokers"]


@pytest.mark.parametrize(
    "message",
    [
        b"\0alice\0wrong",
        b"\0nobody\0alice-secret",
        b"bob\0alice\0alice-secret",
        b"\0alice",
        b"\0\0",
        b"",
        b"\xff\0\xff\0\xff",
    ],
)
def test_a_wrong_login_is_rejected(message: bytes) -> None:
    """One text for all, and the connection is closed."""
    _, client = open_world()
    answer = log_in(client, message)
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer["error_message"] == "Authentication failed: Invalid username or password"
    assert is_closed(client)


def test_a_rejection_may_be_held_back() -> None:
    """So that guessing takes time."""
    world, client = open_world(failure_delay_ms=300)
    client.send(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    client.send(AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0wrong"})
    assert len(client.answers()) == 1
    world.advance(299)
    assert not client.answers()
    world.advance(1)
    assert len(client.answers()) == 1
    assert client.stream.closed


def test_nothing_behind_a_wrong_login_is_taken() -> None:
    """A second guess that was sent with the first is not looked at."""
    world, client = open_world(failure_delay_ms=300)
    client.send(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    client.send(AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0wrong"})
    client.send(AUTHENTICATE, 2, {"auth_bytes": RIGHT})
    world.advance(300)
    codes = [answer["error_code"] for answer in client.answers().values()]
    assert codes == [ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED]
    assert client.stream.closed


def test_a_mechanism_that_is_not_served() -> None:
    """Those that are go into the response; names are case-sensitive, as in Kafka."""
    for name in ("GSSAPI", "plain"):
        _, client = open_world(mechanisms=("PLAIN",))
        answer = client.ask(HANDSHAKE, 1, {"mechanism": name})
        assert answer["error_code"] == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer["mechanisms"] == ["PLAIN"]
        assert is_closed(client)


def test_a_listener_without_a_login() -> None:
    """It says so, and the connection stays."""
    world = World()
    client = world.client()
    answer = client.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    assert answer == {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    assert client.ask(ApiKey.METADATA, 9, {"topics": []})["brokers"]


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=alice",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,m=x,n=alice,r=x",
        b"\xff",
        b"n,,n=alice,r=a b",
    ],
)
def test_scram_that_is_malformed_is_rejected(message: bytes) -> None:
    """With the text of a wrong password."""
    _, client = open_world()
    client.ask(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
    answer = client.ask(AUTHENTICATE, 2, {"auth_bytes": message})
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "SCRAM-SHA-256" in answer["error_message"]


def test_an_unknown_user_looks_as_a_known_one() -> None:
    """It gets a salt as well, always the same."""
    salts = []
    world, _ = open_world()
    for user in ("nobody", "nobody", "alice"):
        client = world.client()
        client.ask(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-512"})
        answer = client.ask(AUTHENTICATE, 2, {"auth_bytes": f"n,,n={user},r=abc".encode()})
        assert answer["error_code"] == ErrorCode.NONE
        salts.append(answer["auth_bytes"].split(b",")[1])
    assert salts[0] == salts[1] != salts[2]
    assert len(salts[0]) == len(salts[2])


def test_a_session_that_is_over_takes_a_login_only() -> None:
    """A new one continues; any other request closes the connection."""
    world, client = open_world(session_lifetime_ms=4_000)
    assert log_in(client)["session_lifetime_ms"] == 4_000
    world.advance(4_000)
    assert log_in(client)["error_code"] == ErrorCode.NONE
    assert client.ask(ApiKey.METADATA, 9, {"topics": []})["brokers"]
    world.advance(4_000)
    client.send(ApiKey.API_VERSIONS, 0, {})
    assert is_closed(client)


def test_a_request_in_the_middle_of_a_login() -> None:
    """It is answered with an error in its own form, and the connection is closed."""
    _, client = open_world()
    client.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    answer = client.ask(ApiKey.METADATA, 9, {"topics": [{"name": "orders"}]})
    assert answer["topics"][0]["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
    assert is_closed(client)


def test_logging_in_again_within_a_second() -> None:
    """The first time may be at any moment; the next is rejected, and the old session continues."""
    world, client = open_world(session_lifetime_ms=4_000)
    log_in(client)
    log_in(client)
    world.advance(999)
    answer = client.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    assert answer == {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    assert client.ask(ApiKey.METADATA, 9, {"topics": []})["brokers"]
    world.advance(1)
    assert log_in(client)["error_code"] == ErrorCode.NONE


def test_logging_in_again_where_sessions_do_not_end() -> None:
    """It is rejected, and the session continues."""
    world, client = open_world()
    log_in(client)
    world.advance(10_000)
    answer = client.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    assert answer["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
    answer = client.ask(AUTHENTICATE, 2, {"auth_bytes": RIGHT})
    assert answer["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(ApiKey.METADATA, 9, {"topics": []})["brokers"]


def test_a_connection_keeps_its_user_and_its_mechanism() -> None:
    """Another user is rejected, another mechanism closes the connection; nothing is said."""
    world, client = open_world(session_lifetime_ms=4_000)
    log_in(client)
    answer = log_in(client, f"\0a=b,c\0{PASSWORD}".encode())
    assert answer["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in answer["error_message"]
    assert is_closed(client)

    client = world.client()
    log_in(client)
    client.ask(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
    client.send(AUTHENTICATE, 2, {"auth_bytes": b"n,,n=alice,r=abc"})
    assert is_closed(client)


def test_a_session_that_is_told_to_end() -> None:
    """Whatever it was told to last."""
    world, client = open_world()
    log_in(client)
    world.cluster.faults.expire_sessions()
    assert log_in(client)["error_code"] == ErrorCode.NONE
    world.cluster.faults.expire_sessions()
    ask_metadata(client)
    assert is_closed(client)


def test_frames_are_small_before_a_login() -> None:
    """512 KiB; afterwards as the settings say."""
    _, client = open_world()
    client.stream.incoming += (600_000).to_bytes(4)
    client.world.step()
    assert is_closed(client)
    world, client = open_world()
    log_in(client)
    client.stream.incoming += (600_000).to_bytes(4)
    world.step()
    assert not client.stream.closed


@pytest.mark.parametrize(
    "wrong",
    [
        {"users": {}},
        {"mechanisms": ("GSSAPI",)},
        {"mechanisms": ()},
        {"session_lifetime_ms": -1},
        {"protocol": "SSL"},
    ],
)
def test_wrong_settings_are_rejected(wrong: dict[str, Any]) -> None:
    """Each names itself, and no password is shown."""
    with pytest.raises(ConfigError) as caught:
        BrokerSecurity(**{"protocol": "SASL_SSL", "users": USERS, **wrong})
    assert "alice-secret" not in str(caught.value)
    assert "alice-secret" not in repr(BrokerSecurity(protocol="SASL_SSL", users=USERS))


@pytest.mark.parametrize("wrong", [{"user": "nobody"}, {"mechanism": "GSSAPI"}])
def test_settings_for_nobody_are_rejected(wrong: dict[str, str]) -> None:
    """The text names those that there are."""
    with served("SASL_PLAINTEXT") as cluster, pytest.raises(ConfigError, match="is not one of"):
        cluster.client_settings(**wrong)
