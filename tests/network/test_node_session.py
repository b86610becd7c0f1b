"""Logging in again on a connection, behind requests in flight: nothing is lost or closed."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import AuthenticationFailed, DeliveryTimeout, MetadataTimeout
from kprod.protocol.api import ApiKey
from tests.conformance.renewals import BATCH_BYTES, renewed
from tests.plugins.early_logins import SESSION_MS

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
FULL_SHARE_MIN = 0.5
"""Of the looks at the requests in flight; there are fewer during a login only."""


def served(protocol: str = "SASL_PLAINTEXT", **security: Any) -> EmbeddedCluster:
    """One broker whose logins last 1.2 s."""
    security = {"session_lifetime_ms": 1_200, "mechanisms": MECHANISMS, **security}
    wanted = BrokerSecurity(protocol=protocol, users={"alice": "right-secret"}, **security)
    return EmbeddedCluster(1, {"orders": 1}, security=wanted)


def counts(producer: Producer) -> dict[str, int]:
    """Logins and connections."""
    found = producer.metrics()["producer-metrics"]
    names = ("successful-reauthentication", "failed-reauthentication", "connection-close")
    return {name: int(found[f"{name}-total"]) for name in names}


def check_renewals(cluster: EmbeddedCluster, settings: dict[str, Any], renewals: int) -> None:
    """Every record arrives once, in order, with five requests in flight; nothing is closed."""
    # Responses take a while, so that requests are in flight.
    cluster.faults.delay(ApiKey.PRODUCE, 2, times=1_000_000, handled=True)
    with Producer(settings, batch_size=BATCH_BYTES) as producer:
        found = renewed(producer, "orders", renewals)
    values = [int(record.value or b"") for record in cluster.records("orders")[0]]
    assert values == list(range(found.sent))
    assert found.failed == found.disconnections == 0
    assert found.full_share > FULL_SHARE_MIN


@pytest.mark.slow
@pytest.mark.usefixtures("early_logins")
@pytest.mark.parametrize(
    ("protocol", "mechanism", "more"),
    [
        ("SASL_PLAINTEXT", "PLAIN", {"linger_ms": 0}),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512", {}),
        ("SASL_SSL", "OAUTHBEARER", {}),
        ("SASL_SSL", "PLAIN", {"sasl_plain_password": lambda: "right-secret"}),
    ],
)
def test_logins_are_renewed_in_place(protocol: str, mechanism: str, more: dict[str, Any]) -> None:
    """Twice."""
    with served(protocol, session_lifetime_ms=SESSION_MS) as cluster:
        settings = cluster.client_settings(user="alice", mechanism=mechanism) | more
        check_renewals(cluster, settings, 2)


@pytest.mark.long
@pytest.mark.usefixtures("early_logins")
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_renewed_for_a_minute(protocol: str, mechanism: str) -> None:
    """Every 1.2 s."""
    with served(protocol, session_lifetime_ms=SESSION_MS) as cluster:
        check_renewals(cluster, cluster.client_settings(user="alice", mechanism=mechanism), 46)


def test_a_login_is_renewed_before_a_lone_record() -> None:
    """On the direct path too: such a connection is left to the sender."""
    with (
        served() as cluster,
        Producer(cluster.client_settings(mechanism="PLAIN"), linger_ms=0) as producer,
    ):
        for number in range(3):
            assert producer.send("orders", b"one").result(30).offset == number
            threading.Event().wait(1.16)
        counted = counts(producer)
    assert counted["connection-close"] == 0
    assert counted["successful-reauthentication"] >= 1


def test_a_rejected_renewal_is_no_record_s_fault() -> None:
    """The next login, on another connection, is right again; records only wait."""
    with (
        served() as cluster,
        Producer(cluster.client_settings(mechanism="PLAIN"), linger_ms=0) as producer,
    ):
        producer.send("orders", b"one").result(30)
        threading.Event().wait(1.16)
        cluster.faults.reject_logins(1, "not now")
        assert producer.send("orders", b"two").result(30).offset == 1
        counted = counts(producer)
    assert counted["failed-reauthentication"] == 1


def test_a_password_that_became_wrong() -> None:
    """Accepted records wait for `delivery_timeout_ms`, and the error says why."""
    passwords = ["right-secret"]
    with served() as cluster:
        settings: dict[str, Any] = cluster.client_settings(mechanism="PLAIN")
        settings["sasl_plain_password"] = lambda: passwords[0]
        settings |= {"linger_ms": 0, "request_timeout_ms": 500, "delivery_timeout_ms": 1_500}
        with Producer(settings) as producer:
            producer.send("orders", b"one").result(30)
            passwords[0] = "wrong-secret"
            threading.Event().wait(1.16)
            with pytest.raises(DeliveryTimeout) as caught:
                producer.send("orders", b"two").result(30)
    assert "the broker rejected user 'alice' (PLAIN)" in str(caught.value)


@pytest.mark.parametrize(
    ("password", "text"),
    [
        (lambda: 1 // 0, "raised ZeroDivisionError: integer division"),
        (lambda: None, "returned NoneType, not a text"),
        (lambda: "a\0b", "returned an unusable text"),
    ],
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_password_that_cannot_be_had(
    password: Callable[[], object], text: str, mechanism: str
) -> None:
    """The exception of the application's function is in the error of the first record."""
    with served() as cluster:
        settings: dict[str, Any] = cluster.client_settings(mechanism=mechanism)
        settings["sasl_plain_password"] = password
        with (
            Producer(settings, max_block_ms=5_000) as producer,
            pytest.raises(AuthenticationFailed) as caught,
        ):
            producer.send("orders", b"one")
    assert f"sasl_plain_password, a function, {text}" in str(caught.value)


@pytest.mark.parametrize("lifetime_ms", [999, 2**31 - 1])
def test_lifetimes_beyond_reason(lifetime_ms: int) -> None:
    """One that is over before a login may be renewed costs connections, a long one nothing."""
    with (
        served(session_lifetime_ms=lifetime_ms) as cluster,
        Producer(cluster.client_settings(mechanism="PLAIN"), linger_ms=0) as producer,
    ):
        for number in range(20):
            assert producer.send("orders", b"%d" % number).result(30).offset == number


def test_a_lifetime_of_a_millisecond_does_not_spin() -> None:
    """Attempts keep their pauses, and the record is told that nothing was possible."""
    with served(session_lifetime_ms=1) as cluster:
        settings = cluster.client_settings(mechanism="PLAIN")
        # A request that is quick enough is let in, so the record may be accepted; it has its time.
        settings |= {"request_timeout_ms": 500, "delivery_timeout_ms": 1_000}
        with Producer(settings, max_block_ms=1_000) as producer:
            with contextlib.suppress(MetadataTimeout, DeliveryTimeout):
                producer.send("orders", b"one").result(30)
            logins = producer.metrics()["producer-metrics"]["successful-authentication-total"]
    assert logins < 50
