"""Logins by tokens at Apache Kafka, and logins that are renewed on a connection."""

import base64
import threading
from typing import Any

import pytest

from kprod import Producer
from kprod.errors import AuthenticationFailed
from kprod.protocol.api import ApiKey
from tests.conformance.renewals import BATCH_BYTES, renewed
from tests.conformance.test_logins_kafka import log_in
from tests.conformance.wire import Wire
from tests.plugins.kafka_secured import TOPIC, USERS, SecuredKafka

FULL_SHARE_MIN = 0.2
"""Of the looks at the requests in flight; a broker that is quicker than the test empties them."""

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


def check_renewals(kafka: SecuredKafka, mechanism: str, renewals: int) -> None:
    """No gap, nothing twice, in order, no disconnection, with five requests in flight."""
    topic = f"renewed-{mechanism}-{renewals}"
    kafka.create_topic(topic)
    settings = settings_for(kafka, "RENEWED", mechanism)
    with Producer(settings, batch_size=BATCH_BYTES) as producer:
        found = renewed(producer, topic, renewals)
    assert found.failed == found.disconnections == 0
    assert found.full_share > FULL_SHARE_MIN


@pytest.mark.slow
@pytest.mark.usefixtures("early_logins")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_renewed_in_place(kafka_secured: SecuredKafka, mechanism: str) -> None:
    """Three times."""
    check_renewals(kafka_secured, mechanism, 3)


@pytest.mark.long
@pytest.mark.usefixtures("early_logins")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_renewed_for_a_minute(kafka_secured: SecuredKafka, mechanism: str) -> None:
    """Every 1.2 s."""
    check_renewals(kafka_secured, mechanism, 46)
