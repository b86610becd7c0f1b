"""Requests to the controller: asked again where that is safe, and given up with the reason."""

import socket
from collections.abc import Iterator

import pytest

from kprod.broker import EmbeddedCluster
from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.errors import ConnectionFailed, Disconnected, KprodTimeout
from kprod.network import topic_admin
from kprod.network.admin_client import AdminClient
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two brokers."""
    with EmbeddedCluster(2, {"orders": 1}) as opened:
        yield opened


def connect(addresses: str, timeout_ms: int = 20_000) -> AdminClient:
    """A client of some addresses."""
    config = ClientConfig(bootstrap_servers=parse_addresses(addresses), client_id="test")
    return AdminClient(config, timeout_ms=timeout_ms)


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_a_cluster_that_is_not_there_is_told_at_once() -> None:
    """Each address with its reason, and not after the timeout, which a test would not survive."""
    ports = [free_port(), free_port()]
    addresses = f"127.0.0.1:{ports[0]},localhost:{ports[1]}"
    with connect(addresses, timeout_ms=3_600_000) as admin, pytest.raises(ConnectionFailed) as told:
        admin.connect()
    for port in ports:
        assert f":{port}: Connection refused" in str(told.value)


def test_one_address_that_works_is_enough(cluster: EmbeddedCluster) -> None:
    """The others may be down."""
    with connect(f"127.0.0.1:{free_port()},{cluster.bootstrap_servers}") as admin:
        admin.connect()
        assert [topic.name for topic in topic_admin.list_topics(admin)] == ["orders"]


def test_another_controller_is_asked(cluster: EmbeddedCluster) -> None:
    """NOT_CONTROLLER means that nothing was done: it is asked again, also about a topic to make."""
    cluster.faults.fail_next(ApiKey.CREATE_TOPICS, ErrorCode.NOT_CONTROLLER, times=2)
    with connect(cluster.bootstrap_servers) as admin:
        topic_admin.make_topic(admin, "audit", 3)
    assert cluster.faults.pending() == ()
    assert len(cluster.records("audit")) == 3


def test_what_changes_nothing_is_asked_again_after_a_disconnect(cluster: EmbeddedCluster) -> None:
    """And what may have been done is not: the caller decides."""
    cluster.faults.disconnect(ApiKey.DESCRIBE_CONFIGS)
    cluster.faults.disconnect(ApiKey.CREATE_TOPICS, handled=True)
    with connect(cluster.bootstrap_servers) as admin:
        assert topic_admin.describe_settings(admin, "orders")
        with pytest.raises(Disconnected):
            topic_admin.make_topic(admin, "audit", 1)
    assert cluster.records("audit") == {0: []}


def test_a_broker_that_does_not_answer_ends_the_wait(cluster: EmbeddedCluster) -> None:
    """After the client's timeout; the text names the request."""
    cluster.faults.drop(ApiKey.DESCRIBE_CONFIGS, times=100)
    with (
        connect(cluster.bootstrap_servers, timeout_ms=300) as admin,
        pytest.raises(KprodTimeout, match="DESCRIBE_CONFIGS was not answered in 300 ms"),
    ):
        topic_admin.describe_settings(admin, "orders")


def test_a_broker_that_is_down_is_gone_around(cluster: EmbeddedCluster) -> None:
    """The metadata may still name it as the controller."""
    with connect(cluster.bootstrap_servers) as admin:
        admin.connect()
        for broker in (0, 1):
            cluster.stop_broker(broker)
            assert topic_admin.list_topics(admin)
            cluster.start_broker(broker)


def test_a_cluster_that_goes_away_is_told_at_once(cluster: EmbeddedCluster) -> None:
    """Between two questions; the timeout is not waited for."""
    with connect(cluster.bootstrap_servers, timeout_ms=3_600_000) as admin:
        admin.connect()
        cluster.stop_broker(0)
        cluster.stop_broker(1)
        with pytest.raises(ConnectionFailed, match="Connection refused"):
            topic_admin.list_topics(admin)
