"""Logins by tokens at Apache Kafka, and logins that are renewed on a connection."""

import base64
import threading
from typing import Any

import pytest

from kprod import Producer
from kprod.errors import AuthenticationFailed
from kprod.protocol.api import ApiKey
from tests.conformance.test_logins_kafka import log_in
from tests.conformance.wire import Wire
from tests.plugins.kafka_secured import TOPIC, USERS, SecuredKafka

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def settings_for(kafka: SecuredKafka, listener: str, mechanism: str) -> dict[str, Any]:
    """Settings of a client that logs in as alice."""
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka.secured_address(listener),
        "security_protocol": "SASL_SSL" if listener == "SASL_SSL" else "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if listener == "SASL_SSL":
        settings["ssl_cafile"] = str(kafka.directory / "ca.pem")
    if mechanism == "OAUTHBEARER":
        return settings | {"sasl_oauth_token_provider": lambda: kafka.token("alice")}
    return settings | {
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
    }


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_token(kafka_secured: SecuredKafka, listener: str) -> None:
    """Signed, and with an extension."""
    with Producer(settings_for(kafka_secured, listener, "OAUTHBEARER")) as producer:
        assert producer.send(TOPIC, b"one").result(60).offset >= 0


def test_a_rejected_token(kafka_secured: SecuredKafka) -> None:
    """The error says of whom it is, and what the broker said; it comes after a second one."""
    given: list[str] = []

    def provide() -> str:
        given.append(kafka_secured.token("alice", aud="another"))
        return given[-1]

    settings = settings_for(kafka_secured, "SASL_SSL", "OAUTHBEARER")
    settings["sasl_oauth_token_provider"] = provide
    with (
        Producer(settings, max_block_ms=20_000) as producer,
        pytest.raises(AuthenticationFailed, match="audience 'another'") as caught,
    ):
        producer.send(TOPIC, b"one")
    assert "invalid_token" in str(caught.value)
    assert len(given) >= 2
    assert not any(token in str(caught.value) for token in given)


def test_a_delegation_token(kafka_secured: SecuredKafka) -> None:
    """Its id and its HMAC, by SCRAM; rejected where it is taken for a password."""
    with Wire(kafka_secured.secured_address("SASL_PLAINTEXT")) as wire:
        log_in(wire, f"\0alice\0{USERS['alice']}".encode())
        made = wire.ask(
            ApiKey.CREATE_DELEGATION_TOKEN,
            3,
            {
                "owner_principal_type": None,
                "owner_principal_name": None,
                "renewers": [],
                "max_lifetime_ms": -1,
            },
        )
        assert made["error_code"] == 0, made
        while made["token_id"] not in known_tokens(
            wire
        ):  # the broker learns of it from the controller, later
            threading.Event().wait(0.05)
    settings = settings_for(kafka_secured, "SASL_SSL", "SCRAM-SHA-256") | {
        "sasl_plain_username": made["token_id"],
        "sasl_plain_password": base64.b64encode(bytes(made["hmac"])).decode(),
    }
    with Producer(settings, sasl_scram_tokenauth=True) as producer:
        assert producer.send(TOPIC, b"one").result(60).offset >= 0
    with (
        Producer(settings, max_block_ms=20_000) as producer,
        pytest.raises(AuthenticationFailed),
    ):
        producer.send(TOPIC, b"one")


def known_tokens(wire: Wire) -> set[str]:
    """Return the ids of the tokens that the broker knows."""
    described = wire.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})
    assert described["error_code"] == 0, described
    return {token["token_id"] for token in described["tokens"]}


def renewed(kafka: SecuredKafka, mechanism: str, renewals: int) -> int:
    """Send with five requests in flight until a login was renewed so often.

    Returns:
        Records sent, each of which has arrived once and in order.
    """
    topic = f"renewed-{mechanism}-{renewals}"
    kafka.create_topic(topic)
    futures: list[Any] = []
    with Producer(settings_for(kafka, "RENEWED", mechanism), batch_size=200) as producer:
        counted = producer.metrics()["producer-metrics"]
        while counted["successful-reauthentication-total"] < renewals:
            for _ in range(100):
                futures.append(producer.send(topic, b"%d" % len(futures)))
                threading.Event().wait(0.002)
            counted = producer.metrics()["producer-metrics"]
        assert [it.result(60).offset for it in futures] == list(range(len(futures)))
        counted = producer.metrics()["producer-metrics"]
    assert counted["failed-reauthentication-total"] == counted["connection-close-total"] == 0
    return len(futures)


@pytest.mark.slow
@pytest.mark.usefixtures("early_logins")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_renewed_in_place(kafka_secured: SecuredKafka, mechanism: str) -> None:
    """No gap, nothing twice, in order, no disconnection."""
    assert renewed(kafka_secured, mechanism, 3) > 0


@pytest.mark.long
@pytest.mark.usefixtures("early_logins")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_renewed_for_a_minute(kafka_secured: SecuredKafka, mechanism: str) -> None:
    """The same, every 1.2 s."""
    assert renewed(kafka_secured, mechanism, 46) > 0
