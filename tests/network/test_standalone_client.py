"""Clients beside the producer connect as the settings say: over TLS, with a login."""

from collections.abc import Iterator

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.config import ProducerConfig
from kprod.network.topic_admin import create_topic
from tests.consumer.reading import read_topic

SECURITY = BrokerSecurity(protocol="SASL_SSL", users={"alice": "alice-secret"})


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Brokers that ask for TLS and a login.

    Yields:
        The cluster.
    """
    with EmbeddedCluster(brokers=1, security=SECURITY) as cluster:
        yield cluster


def test_a_topic_is_created_and_read_where_tls_and_a_login_are_asked_for(
    cluster: EmbeddedCluster,
) -> None:
    """The settings of the producer serve both."""
    settings = cluster.client_settings()
    config = ProducerConfig.parse(settings)
    create_topic(config, "secured", 2)
    with Producer(settings) as producer:
        producer.send("secured", b"one", partition=1).result(30)
    found = read_topic(cluster.bootstrap_servers, "secured", **settings)
    assert [(record.partition, record.value) for record in found] == [(1, b"one")]
