"""A producer that logs in at an embedded broker, or is told why not."""

import random
import threading
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.clock import ManualClock
from kprod.config import SecurityConfig
from kprod.errors import AuthenticationFailed, KprodError, MetadataTimeout
from kprod.metrics.state_log import StateLog
from kprod.model import Node
from kprod.network.address_cursor import SocketAddress
from kprod.network.framing import RESPONSE_BYTES_MAX_UNAUTHENTICATED
from kprod.network.sasl.login_support import LoginSupport
from kprod.network.sasl.login_thread import InlineJobs
from kprod.network.security import Security
from kprod.timer.timer import Timer

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = {"alice": "canary-1", "a=b,c": "pa①ss wörd"}


def served(protocol: str = "SASL_PLAINTEXT", **security: Any) -> EmbeddedCluster:
    """One broker that wants a login."""
    wanted = BrokerSecurity(protocol=protocol, users=USERS, **security)
    return EmbeddedCluster(1, {"orders": 1}, security=wanted)


def rejection(settings: dict[str, Any]) -> KprodError:
    """The error of a record that cannot be sent."""
    with Producer(settings, max_block_ms=2_000) as producer:
        with pytest.raises((AuthenticationFailed, MetadataTimeout)) as caught:
            producer.send("orders", b"one")
        return caught.value


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_record_is_delivered(protocol: str, mechanism: str, linger_ms: int) -> None:
    """By each mechanism, with and without TLS, on the direct path and by the sender."""
    with served(protocol) as cluster:
        for user in USERS:
            settings = cluster.client_settings(user=user, mechanism=mechanism)
            with Producer(settings, linger_ms=linger_ms) as producer:
                producer.send("orders", user.encode()).result(30)
        assert [it.value for it in cluster.records("orders")[0]] == [it.encode() for it in USERS]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "wrong", [{"sasl_plain_password": "canary-2"}, {"sasl_plain_username": "nobody"}]
)
def test_a_wrong_login_is_told_at_once(
    mechanism: str, wrong: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """By the broker's text and the user's name; the password is nowhere."""
    caplog.set_level(1)
    with served() as cluster:
        error = rejection(cluster.client_settings(mechanism=mechanism) | wrong)
    assert isinstance(error, AuthenticationFailed)
    user = wrong.get("sasl_plain_username", "alice")
    assert f"the broker rejected user {user!r} ({mechanism}): Authentication failed" in str(error)
    assert "canary" not in str(error) + caplog.text


@pytest.mark.slow
def test_records_outlive_sessions() -> None:
    """A login that is over is made again on another connection: no gap, nothing twice, in order."""
    futures = []
    with (
        served(session_lifetime_ms=250) as cluster,
        Producer(cluster.client_settings(mechanism="SCRAM-SHA-256"), linger_ms=0) as producer,
    ):
        for number in range(200):
            futures.append(producer.send("orders", b"%d" % number))
            if not number % 10:
                futures[-1].result(30)
                threading.Event().wait(0.05)  # so that sessions end between records
        offsets = [future.result(30).offset for future in futures]
        found = [record.value for record in cluster.records("orders")[0]]
    assert offsets == list(range(200))
    assert found == [b"%d" % number for number in range(200)]


def test_a_mechanism_that_the_broker_lacks() -> None:
    """Nothing else is tried, least of all a weaker one."""
    with served(mechanisms=("PLAIN",)) as cluster:
        settings = cluster.client_settings() | {"sasl_mechanism": "SCRAM-SHA-256"}
        error = rejection(settings)
    assert "the broker offers PLAIN, not SCRAM-SHA-256 (sasl_mechanism)" in str(error)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_client_without_a_login(protocol: str) -> None:
    """The broker answers ApiVersions, and closes the connection at the next request."""
    with served(protocol) as cluster:
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers}
        if protocol == "SASL_SSL":
            settings |= {"security_protocol": "SSL", "ssl_cadata": cluster.ca_pem}
        error = rejection(settings)
    assert "closed the connection at the first request; it may want SASL: set" in str(error)


def test_a_listener_without_a_login() -> None:
    """It is named as what it is."""
    with EmbeddedCluster(1) as cluster:
        error = rejection(
            {
                "bootstrap_servers": cluster.bootstrap_servers,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "alice",
                "sasl_plain_password": "canary",
            }
        )
    assert "the listener takes no login: set security_protocol=PLAINTEXT or SSL" in str(error)


def test_java_s_form_of_a_login() -> None:
    """Name and password out of `sasl.jaas.config`."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    with served() as cluster:
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="alice" password="canary-1";',
        }
        with Producer(settings) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0


def security(**settings: Any) -> Security:
    """The security of a client that logs in by PLAIN."""
    made = Security(
        SecurityConfig.parse(
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "alice",
                "sasl_plain_password": "canary",
                **settings,
            }
        )
    )
    clock = ManualClock()
    timer = Timer(clock.now_ms())
    made.attach(
        LoginSupport(
            InlineJobs(lambda: None), timer, clock, random.Random(1), StateLog("a"), lambda: False
        )
    )
    return made


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_a_password_is_not_sent_in_the_clear(host: str) -> None:
    """To an address that is not loopback, wherever it came from; unless that is asked for."""
    node, address = Node(1, "kafka.example.org", 9092), SocketAddress(2, host, 9092)
    with pytest.raises(AuthenticationFailed, match="sasl_allow_cleartext=True") as caught:
        security().handshake(node, address)
    assert "canary" not in str(caught.value)
    assert security(sasl_allow_cleartext=True).handshake(node, address)
    assert security(sasl_mechanism="SCRAM-SHA-256").handshake(node, address)
    assert security(security_protocol="SASL_SSL").handshake(node, address)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1"])
def test_a_password_may_be_sent_to_this_machine(host: str) -> None:
    """Nobody else hears it."""
    assert security().handshake(Node(1, "localhost", 9092), SocketAddress(2, host, 9092))


def test_answers_are_small_before_a_login() -> None:
    """512 KiB, from a broker that has not let us in."""
    assert security().frame_reader().bytes_max == RESPONSE_BYTES_MAX_UNAUTHENTICATED
    assert Security().frame_reader().bytes_max > RESPONSE_BYTES_MAX_UNAUTHENTICATED
