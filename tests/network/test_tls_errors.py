"""Every mistake with TLS is told within one attempt, by the error that the application gets."""

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster, EmbeddedConfig
from kprod.broker.security.authority import Authority, authority
from kprod.errors import KprodError, MetadataTimeout, TlsFailed


def rejection(**settings: Any) -> KprodError:
    """The error of a record that cannot be sent."""
    with Producer(max_block_ms=2_000, **settings) as producer:
        with pytest.raises((TlsFailed, MetadataTimeout)) as caught:
            producer.send("orders", b"one")
        return caught.value


@contextmanager
def served(**security: Any) -> Generator[EmbeddedCluster]:
    """One broker with TLS."""
    wanted = BrokerSecurity(protocol="SSL", **security)
    with EmbeddedCluster(1, {"orders": 1}, security=wanted) as cluster:
        yield cluster


@contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Generator[str]:
    """A listener that treats every connection as `serve` does; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener, serve))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def accept(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    """Serve one connection after another, until the listener is shut down."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            connection.settimeout(10)
            with connection, suppress(OSError):
                serve(connection)


@pytest.mark.parametrize(
    ("security", "text"),
    [
        ({"certificate_valid": "expired"}, "its certificate has expired"),
        ({"certificate_valid": "not yet"}, "is this machine's clock right?"),
        ({"certificate_hosts": ("kafka.example.org",)}, "its certificate is not for '127.0.0.1'"),
        ({"client_certificates": "required"}, "wants a client certificate: set ssl_certfile"),
    ],
)
def test_a_certificate_is_rejected(security: dict[str, Any], text: str) -> None:
    """The broker's by us, or ours by the broker; `send` says so at once."""
    with served(**security) as cluster:
        error = rejection(**cluster.client_settings())
        assert isinstance(error, TlsFailed)
        assert error.is_identity
        assert str(error).startswith(f"cannot connect to broker {cluster.bootstrap_servers}: "), (
            error
        )
        assert text in str(error)


def test_an_advertised_name_is_checked_too() -> None:
    """Of each node of the cluster: no login is sent to a host that cannot prove its name.

    The topic may be asked for at that node already; then `send` raises the error.
    """
    users, hosts = {"alice": "right-secret"}, ("127.0.0.1",)
    wanted = BrokerSecurity(protocol="SASL_SSL", users=users, certificate_hosts=hosts)
    config = EmbeddedConfig(advertised_host="localhost")
    with EmbeddedCluster(1, {"orders": 1}, config=config, security=wanted) as cluster:
        # The cluster's own idea of its address is the advertised one.
        port = cluster.bootstrap_servers.split(":")[1]
        settings = cluster.client_settings(mechanism="PLAIN")
        settings |= {"bootstrap_servers": f"127.0.0.1:{port}"}
        limits: dict[str, Any] = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 1_500}
        with Producer(settings, **limits) as producer:
            try:
                error = producer.send("orders", b"one").exception(30)
            except TlsFailed as raised:
                error = raised
        assert "its certificate is not for 'localhost'" in str(error)
        assert isinstance(error, KprodError)
        assert isinstance(error if isinstance(error, TlsFailed) else error.__cause__, TlsFailed)
        assert not cluster.records("orders")[0]


def test_an_authority_that_is_not_trusted() -> None:
    """The text names the setting, and where the trust came from."""
    with served() as cluster:
        address = cluster.bootstrap_servers
        by_system = rejection(bootstrap_servers=address, security_protocol="SSL")
        by_text = rejection(
            bootstrap_servers=address, security_protocol="SSL", ssl_cadata=Authority().pem
        )
    assert "not issued by a trusted authority (the system's" in str(by_system)
    assert "not issued by a trusted authority (ssl_cadata" in str(by_text)
    assert isinstance(by_text, TlsFailed)
    assert by_text.is_identity


def test_a_client_certificate_of_another_authority() -> None:
    """The broker rejects it after the handshake, and the text says whose it was."""
    stranger = Authority().client_certificate("mallory")
    with served(client_certificates="required") as cluster:
        error = rejection(
            **cluster.client_settings(),
            ssl_certdata=stranger.certificate_pem,
            ssl_keydata=stranger.key_pem,
        )
    assert isinstance(error, TlsFailed)
    assert "does not accept the client certificate" in str(error)


def test_a_client_certificate_lets_in() -> None:
    """As texts; the record arrives."""
    with served(client_certificates="required") as cluster:
        alice = cluster.client_certificate("alice")
        with Producer(
            **cluster.client_settings(),
            ssl_certdata=alice.certificate_pem,
            ssl_keydata=alice.key_pem,
        ) as producer:
            producer.send("orders", b"one").result(30)
        assert [record.value for record in cluster.records("orders")[0]] == [b"one"]


def test_a_wrong_name_passes_without_the_check(caplog: pytest.LogCaptureFixture) -> None:
    """Switched off by the setting, in Java's words too; a warning says what that means."""
    with served(certificate_hosts=("kafka.example.org",)) as cluster:
        settings = cluster.client_settings()
        settings["ssl.endpoint.identification.algorithm"] = ""
        with Producer(settings) as producer:
            producer.send("orders", b"one").result(30)
    assert "host names in brokers' certificates are not checked" in caplog.text


def test_a_listener_without_tls() -> None:
    """It closes the connection at the first bytes, as Kafka does."""
    with EmbeddedCluster(1) as cluster:
        error = rejection(bootstrap_servers=cluster.bootstrap_servers, security_protocol="SSL")
    assert "is this a PLAINTEXT or SASL_PLAINTEXT listener?" in str(error)


def test_a_client_without_tls() -> None:
    """The broker's alert is understood."""
    with served() as cluster:
        error = rejection(bootstrap_servers=cluster.bootstrap_servers)
    assert "set security_protocol=SSL" in str(error)


def test_another_service() -> None:
    """Its first bytes say what it is."""

    def serve(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with peer(serve) as address:
        error = rejection(bootstrap_servers=address, security_protocol="SSL")
    assert "answered the TLS handshake with something else (an HTTP server)" in str(error)


def test_no_version_in_common() -> None:
    """A broker of TLS 1.2 only, and a client of TLS 1.3 only."""
    context = authority().server_context(BrokerSecurity(protocol="SSL"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True):
            pass

    with peer(serve) as address:
        error = rejection(
            bootstrap_servers=address,
            security_protocol="SSL",
            ssl_cadata=authority().pem,
            ssl_enabled_protocols="TLSv1.3",
        )
    assert "no TLS version or cipher in common; ours: TLSv1.3" in str(error)


def test_a_listener_that_wants_more_than_tls() -> None:
    """Closed behind the handshake, at the first request: SASL is wanted, most likely."""
    context = authority().server_context(BrokerSecurity(protocol="SSL"))

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            encrypted.recv(1)

    with peer(serve) as address:
        error = rejection(
            bootstrap_servers=address, security_protocol="SSL", ssl_cadata=authority().pem
        )
    assert "after the TLS handshake; it may want SASL" in str(error)


def test_a_handshake_that_never_ends_is_given_up() -> None:
    """It counts to the time in which a connection must stand."""
    silence = threading.Event()

    def serve(connection: socket.socket) -> None:
        assert connection
        silence.wait(30)

    with peer(serve) as address:
        try:
            error = rejection(
                bootstrap_servers=address,
                security_protocol="SSL",
                socket_connection_setup_timeout_ms=200,
            )
        finally:
            silence.set()
    assert "socket_connection_setup_timeout_ms" in str(error)
    assert "still in the TLS handshake with 127.0.0.1:" in str(error)
