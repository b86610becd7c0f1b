"""TLS and logins at Apache Kafka: logins that are let in, and the name of each mistake."""

import threading
from pathlib import Path
from typing import Any

import pytest
import trustme

from kprod import Producer
from kprod.errors import (
    AuthenticationFailed,
    DeliveryTimeout,
    KprodError,
    MetadataTimeout,
    Persistence,
    TlsFailed,
)
from tests.plugins.kafka_secured import (
    LACKING,
    MECHANISMS,
    TOPIC,
    USERS,
    SecuredKafka,
    client_pem,
)


def settings_for(kafka: SecuredKafka, listener: str) -> dict[str, Any]:
    """A client's settings."""
    protocol = listener if listener.startswith("SASL") else "SSL"
    settings = {"bootstrap.servers": kafka.secured_address(listener), "security.protocol": protocol}
    if listener != "SASL_PLAINTEXT":
        settings["ssl.ca.location"] = str(kafka.directory / "ca.pem")
    return settings


def with_login(
    settings: dict[str, Any], mechanism: str, user: str = "alice", password: str | None = None
) -> dict[str, Any]:
    """The same with a login."""
    return settings | {
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": USERS[user] if password is None else password,
    }


def deliver(settings: dict[str, Any]) -> int:
    """Send one record; returns its offset."""
    with Producer(settings) as producer:
        return producer.send(TOPIC, b"one").result(60).offset


def rejection(settings: dict[str, Any]) -> KprodError:
    """The error of a record that cannot be sent."""
    with Producer(settings, max_block_ms=3_000) as producer:
        with pytest.raises((TlsFailed, AuthenticationFailed, MetadataTimeout)) as caught:
            producer.send(TOPIC, b"one")
        return caught.value


@pytest.mark.parametrize("listener", ["SSL", "TLS12"])
def test_tls(kafka_secured: SecuredKafka, listener: str) -> None:
    """In version 1.3, and where there is 1.2 only."""
    assert deliver(settings_for(kafka_secured, listener)) >= 0


def test_many_records_over_tls(kafka_secured: SecuredKafka) -> None:
    """20,000 of them, each delivered."""
    with Producer(settings_for(kafka_secured, "SSL")) as producer:
        futures = [producer.send(TOPIC, bytes(1_000)) for _ in range(20_000)]
        offsets = [future.result(60).offset for future in futures]
    assert offsets == list(range(offsets[0], offsets[0] + 20_000))


def test_a_client_certificate(kafka_secured: SecuredKafka, tmp_path: Path) -> None:
    """One of an authority that the broker trusts; without one, and with another, it says so."""
    settings = settings_for(kafka_secured, "MTLS")
    good = client_pem(tmp_path, kafka_secured.ca)
    assert deliver(settings | {"ssl.keystore.location": str(good)}) >= 0
    assert "wants a client certificate: set ssl_certfile" in str(rejection(settings))
    bad = client_pem(tmp_path, trustme.CA())
    error = rejection(settings | {"ssl.keystore.location": str(bad)})
    assert "does not accept the client certificate" in str(error)


@pytest.mark.parametrize(
    ("listener", "text"),
    [
        ("WRONGHOST", "its certificate is not for 'localhost'"),
        ("EXPIRED", "has expired"),
        ("NOTYET", "is this machine's clock right?"),
    ],
)
def test_a_wrong_certificate(kafka_secured: SecuredKafka, listener: str, text: str) -> None:
    """Rejected within the first attempt."""
    error = rejection(settings_for(kafka_secured, listener))
    assert isinstance(error, TlsFailed)
    assert text in str(error)


def test_an_unknown_authority(kafka_secured: SecuredKafka) -> None:
    """The system's do not have it."""
    settings = settings_for(kafka_secured, "SSL")
    del settings["ssl.ca.location"]
    assert "not issued by a trusted authority (the system's" in str(rejection(settings))


def test_tls_where_there_is_none(kafka_secured: SecuredKafka) -> None:
    """And no TLS where it is wanted."""
    address = {"bootstrap_servers": kafka_secured.bootstrap_servers}
    error = rejection(address | {"security_protocol": "SSL"})
    assert "is this a PLAINTEXT or SASL_PLAINTEXT listener?" in str(error)
    error = rejection({"bootstrap_servers": kafka_secured.secured_address("SSL")})
    assert "set security_protocol=SSL" in str(error)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login(kafka_secured: SecuredKafka, listener: str, mechanism: str) -> None:
    """By each mechanism, with and without TLS."""
    assert deliver(with_login(settings_for(kafka_secured, listener), mechanism)) >= 0


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_a_name_and_a_password_with_signs(kafka_secured: SecuredKafka, mechanism: str) -> None:
    """As Kafka's own tool has stored them."""
    settings = settings_for(kafka_secured, "SASL_PLAINTEXT")
    assert deliver(with_login(settings, mechanism, user="a=b,c")) >= 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password(kafka_secured: SecuredKafka, mechanism: str) -> None:
    """The broker's text, and the user's name."""
    settings = settings_for(kafka_secured, "SASL_SSL")
    error = rejection(with_login(settings, mechanism, password="wrong-secret"))  # noqa: S106 - it is
    assert isinstance(error, AuthenticationFailed)
    assert f"the broker rejected user 'alice' ({mechanism}): Authentication failed" in str(error)


def test_a_login_where_none_is_taken(kafka_secured: SecuredKafka) -> None:
    """At a listener with TLS alone."""
    settings = settings_for(kafka_secured, "SSL") | {"security.protocol": "SASL_SSL"}
    assert "the listener takes no login" in str(rejection(with_login(settings, "PLAIN")))


def test_a_listener_that_wants_a_login(kafka_secured: SecuredKafka) -> None:
    """It closes the connection of a client that does not log in, without a word."""
    error = rejection(settings_for(kafka_secured, "SASL_SSL") | {"security.protocol": "SSL"})
    assert "may want SASL" in str(error)
    error = rejection({"bootstrap.servers": kafka_secured.secured_address("SASL_PLAINTEXT")})
    assert "may want SASL" in str(error)


def test_no_version_in_common(kafka_secured: SecuredKafka) -> None:
    """A listener of TLS 1.2 only, and a client of TLS 1.3 only."""
    settings = settings_for(kafka_secured, "TLS12") | {"ssl.enabled.protocols": "TLSv1.3"}
    assert "no TLS version or cipher in common; ours: TLSv1.3" in str(rejection(settings))


def test_a_mechanism_that_is_not_offered(kafka_secured: SecuredKafka) -> None:
    """The text has those that are."""
    settings = {
        "bootstrap.servers": kafka_secured.secured_address("REAUTH"),
        "security.protocol": "SASL_PLAINTEXT",
    }
    error = rejection(with_login(settings, LACKING))
    assert isinstance(error, AuthenticationFailed)
    assert f"not {LACKING} (sasl_mechanism)" in str(error)
    assert "PLAIN" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("is_corrected", [True, False])
def test_records_wait_for_a_right_password(
    kafka_secured: SecuredKafka, *, is_corrected: bool
) -> None:
    """Of a client that was let in before; what cannot be delivered has the rejection as cause."""
    passwords = [USERS["alice"]]
    settings = with_login(settings_for(kafka_secured, "SASL_SSL"), "SCRAM-SHA-256")
    del settings["sasl.password"]
    limits: dict[str, Any] = {"request_timeout_ms": 5_000, "connections_max_idle_ms": 1_000}
    with Producer(
        settings, sasl_plain_password=lambda: passwords[-1], delivery_timeout_ms=8_000, **limits
    ) as producer:
        producer.send(TOPIC, b"one").result(60)
        passwords.append("wrong-secret")
        while producer.metrics()["producer-metrics"]["connection-count"]:
            threading.Event().wait(0.05)
        future = producer.send(TOPIC, b"two")
        while not producer.metrics()["producer-metrics"]["failed-authentication-total"]:
            threading.Event().wait(0.05)
        if is_corrected:
            passwords.append(USERS["alice"])
            assert future.result(60).offset > 0
        else:
            error = future.exception(60)
            assert isinstance(error, DeliveryTimeout)
            assert isinstance(error.__cause__, AuthenticationFailed)
            assert "the broker rejected user 'alice' (SCRAM-SHA-256)" in str(error)
            assert error.persistence is Persistence.NOT_PERSISTED
