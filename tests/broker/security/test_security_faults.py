"""Armed faults: rejected logins, broken handshakes, modified ciphertext."""

import socket
import ssl
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import AuthenticationFailed

USERS = {"alice": "alice-secret"}


def served(protocol: str, **security: Any) -> EmbeddedCluster:
    """One broker."""
    users = USERS if protocol.startswith("SASL") else {}
    wanted = BrokerSecurity(protocol=protocol, users=users, **security)
    return EmbeddedCluster(1, {"orders": 1}, security=wanted)


def test_a_right_login_is_rejected_on_demand() -> None:
    """With the text that was asked for, so often as was asked for."""
    with served("SASL_PLAINTEXT") as cluster:
        cluster.faults.reject_logins(message="the account is locked")
        settings = cluster.client_settings(mechanism="PLAIN")
        with (
            Producer(settings) as producer,
            pytest.raises(AuthenticationFailed, match="the account is locked"),
        ):
            producer.send("orders", b"one")
        with Producer(settings) as producer:
            producer.send("orders", b"two").result(30)
        assert [it.value for it in cluster.records("orders")[0]] == [b"two"]


@pytest.mark.parametrize("at_byte", [0, 1, 5, 100, 500])
def test_a_handshake_breaks_at_a_byte(at_byte: int) -> None:
    """That number of the broker's bytes arrives; the next connection is complete."""
    with served("SSL") as cluster:
        cluster.faults.break_handshakes(at_byte)
        context = ssl.create_default_context(cadata=cluster.ca_pem)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        host, port = cluster.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            plain.sendall(outgoing.read())
            received = b""
            while piece := plain.recv(1 << 16):
                received += piece
        assert len(received) == at_byte
        with Producer(cluster.client_settings()) as producer:
            producer.send("orders", b"one").result(30)


@pytest.mark.parametrize("times", [1, 3])
def test_changed_ciphertext_loses_nothing(times: int) -> None:
    """The client connects again, and each record is there once."""
    with served("SSL") as cluster, Producer(cluster.client_settings(), linger_ms=0) as producer:
        producer.send("orders", b"0").result(30)
        cluster.faults.tamper(times)
        futures = [producer.send("orders", b"%d" % number) for number in range(1, 200)]
        producer.flush()
        assert [future.result(30).offset for future in futures] == list(range(1, 200))
        values = [it.value for it in cluster.records("orders")[0]]
        assert values == [b"%d" % number for number in range(200)]


def test_faults_are_disarmed() -> None:
    """With all others."""
    with served("SASL_SSL") as cluster:
        cluster.faults.reject_logins(5)
        cluster.faults.break_handshakes(0, 5)
        cluster.faults.tamper(5)
        cluster.faults.clear()
        with Producer(cluster.client_settings()) as producer:
            assert producer.send("orders", b"one").result(30).offset == 0


def test_the_name_in_a_client_certificate_is_the_principal() -> None:
    """Its common name, as Kafka has it with a mapping rule."""
    security = BrokerSecurity(protocol="SSL", client_certificates="required")
    with EmbeddedCluster(1, {"orders": 1}, security=security) as cluster:
        alice = cluster.client_certificate("alice")
        settings = cluster.client_settings() | {
            "ssl_certdata": alice.certificate_pem,
            "ssl_keydata": alice.key_pem,
        }
        with Producer(settings) as producer:
            producer.send("orders", b"one").result(30)
            broker = cluster._kprod.engine.brokers[0]
            names = cluster.call(lambda: {it.session.principal for it in broker._connections})
        assert names == {"alice"}
