"""The broker's TLS, from the outside: Python's own client side, and other Kafka clients."""

import asyncio
import socket
import ssl
from collections.abc import Iterator, Sequence

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.broker.security.authority import authority
from kprod.broker.security.tls_stream import TlsStream
from kprod.errors import ConfigError
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_response_header, encode_request_header
from tests.broker.memory_network import MemoryNetwork
from tests.broker.world import World


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with TLS."""
    with EmbeddedCluster(1, {"orders": 1}, security=BrokerSecurity(protocol="SSL")) as made:
        yield made


def values(cluster: EmbeddedCluster) -> list[bytes | None]:
    """The log's values."""
    return [record.value for record in cluster.records("orders")[0]]


def connected(cluster: EmbeddedCluster, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A client that has shaken hands."""
    host, port = cluster.bootstrap_servers.rsplit(":", 1)
    return context.wrap_socket(
        socket.create_connection((host, int(port)), timeout=30), server_hostname=host
    )


def trusting(cluster: EmbeddedCluster) -> ssl.SSLContext:
    """A client's context."""
    return ssl.create_default_context(cadata=cluster.ca_pem)


def ask_versions(connection: ssl.SSLSocket) -> dict[int, int]:
    """Ask ApiVersions; returns the newest version by API."""
    header = encode_request_header(ApiKey.API_VERSIONS, 0, 1, "test")
    frame = header + request_codec(ApiKey.API_VERSIONS, 0).encode({})
    connection.sendall(len(frame).to_bytes(4) + frame)
    with connection.makefile("rb") as stream:
        answer = stream.read(int.from_bytes(stream.read(4)))
    _, at = decode_response_header(ApiKey.API_VERSIONS, 0, answer)
    body = response_codec(ApiKey.API_VERSIONS, 0).decode(answer[at:])
    return {it["api_key"]: it["max_version"] for it in body["api_keys"]}


def test_confluent_kafka_produces(cluster: EmbeddedCluster) -> None:
    """With the settings that the cluster names."""
    errors: list[object] = []
    producer = ConfluentProducer(cluster.client_settings(names="confluent"))
    for number in range(1_000):
        producer.produce(
            "orders", f"{number:0>1000}", on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    assert errors == [None] * 1_000
    assert values(cluster) == [f"{number:0>1000}".encode() for number in range(1_000)]


def test_kafka_python_produces(cluster: EmbeddedCluster) -> None:
    """With the settings that the cluster names."""
    producer = KafkaProducer(**cluster.client_settings(names="kafka"))
    try:
        producer.send("orders", b"one").get(60)
    finally:
        producer.close()
    assert values(cluster) == [b"one"]


def test_aiokafka_produces(cluster: EmbeddedCluster) -> None:
    """With the settings that the cluster names."""

    async def produce() -> None:
        producer = AIOKafkaProducer(**cluster.client_settings(names="aiokafka"))
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"one")
        finally:
            await producer.stop()

    asyncio.run(produce())
    assert values(cluster) == [b"one"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_served(cluster: EmbeddedCluster, version: ssl.TLSVersion) -> None:
    """As by Kafka's defaults."""
    context = trusting(cluster)
    context.minimum_version = context.maximum_version = version
    with connected(cluster, context) as connection:
        assert connection.version() == version.name.replace("_", ".")
        assert ApiKey.PRODUCE in ask_versions(connection)


def test_a_client_without_tls_is_told_by_an_alert(cluster: EmbeddedCluster) -> None:
    """As Kafka does it, so that a client can say what is wrong; then the connection ends."""
    host, port = cluster.bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"\0\0\0\x10" + bytes(16))
        answer = b"".join(iter(lambda: connection.recv(100), b""))
    assert answer[:2] == b"\x15\x03"


@pytest.mark.parametrize(
    ("security", "verify_code"),
    [
        (BrokerSecurity(protocol="SSL", certificate_hosts=("kafka.example.org",)), 64),
        (BrokerSecurity(protocol="SSL", certificate_valid="expired"), 10),
        (BrokerSecurity(protocol="SSL", certificate_valid="not yet"), 9),
    ],
)
def test_a_wrong_certificate_is_shown_on_demand(security: BrokerSecurity, verify_code: int) -> None:
    """For another host, of yesterday, of tomorrow: a client must reject it."""
    with EmbeddedCluster(1, security=security) as cluster:
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            connected(cluster, trusting(cluster))
        assert caught.value.verify_code == verify_code


def test_a_client_certificate_is_asked_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One of the cluster's own authority is let in; without one the connection ends."""
    security = BrokerSecurity(protocol="SSL", client_certificates="required")
    with EmbeddedCluster(1, security=security) as cluster:
        with (
            connected(cluster, trusting(cluster)) as connection,
            pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
        ):
            connection.recv(1)
        issued = cluster.client_certificate("alice")
        assert issued.key_pem.startswith("-----BEGIN PRIVATE KEY-----")
        assert issued.key_pem not in repr(issued)
        path = tmp_path_factory.mktemp("client") / "alice.pem"
        path.write_text(issued.key_pem + issued.certificate_pem)
        context = trusting(cluster)
        context.load_cert_chain(path)
        with connected(cluster, context) as connection:
            assert ApiKey.PRODUCE in ask_versions(connection)


class GoneStream:
    """A client that has sent bytes, and takes none."""

    peer = "127.0.0.1:1"

    def __init__(self, received: bytes) -> None:
        """Give these bytes, then the end of the stream."""
        self.received = received

    def receive_into(self, buffer: memoryview) -> int | None:
        """Give them."""
        count = len(self.received)
        buffer[:count], self.received = self.received, b""
        return count

    def send(self, pieces: Sequence[memoryview]) -> int:
        """Fail, as a socket whose peer is gone."""
        raise BrokenPipeError(sum(map(len, pieces)))

    def close(self) -> None:
        """Do nothing."""


def test_a_client_that_leaves_in_the_handshake_ends_its_connection_only() -> None:
    """The broker's answer to its bytes cannot be sent, which is the end of the stream."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=authority().pem)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    below = GoneStream(outgoing.read())
    stream = TlsStream(below, authority().server_context(BrokerSecurity(protocol="SSL")))
    assert stream.receive_into(memoryview(bytearray(1 << 18))) == 0
    assert not stream.has_output
    stream.close()


def test_bytes_may_come_and_go_one_by_one() -> None:
    """Over a network that gives and takes one byte at a time; nothing is lost or sent twice."""
    world = World(security=BrokerSecurity(protocol="SSL"))
    assert isinstance(world.network, MemoryNetwork)
    stream = world.network.connect(9_000)
    stream.receive_limit_bytes = stream.send_limit_bytes = 1
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=authority().pem)
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")

    def exchange() -> None:
        stream.incoming += outgoing.read()
        while stream.incoming:
            world.step()
        world.step()
        incoming.write(bytes(stream.outgoing))
        stream.outgoing.clear()

    for _ in range(5):
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            exchange()
    header = encode_request_header(ApiKey.API_VERSIONS, 0, 7, "test")
    frame = header + request_codec(ApiKey.API_VERSIONS, 0).encode({})
    client.write(len(frame).to_bytes(4) + frame)
    exchange()
    answer = client.read(1 << 16)
    assert int.from_bytes(answer[:4]) == len(answer) - 4
    assert int.from_bytes(answer[4:8]) == 7


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocol": "TLS"},
        {"client_certificates": "maybe", "protocol": "SSL"},
        {"client_certificates": "required"},
        {"certificate_valid": "tomorrow", "protocol": "SSL"},
        {"certificate_hosts": (), "protocol": "SSL"},
        {"certificate_hosts": "localhost", "protocol": "SSL"},
    ],
)
def test_wrong_settings_are_rejected(wrong: dict[str, object]) -> None:
    """Each names itself."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        BrokerSecurity(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_an_unknown_client_is_rejected(cluster: EmbeddedCluster) -> None:
    """The text names those that are known."""
    with pytest.raises(ConfigError, match="confluent"):
        cluster.client_settings(names="java")
