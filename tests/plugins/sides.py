"""The embedded broker and Apache Kafka, set up alike, for tests that hold one to the other."""

from collections.abc import Generator

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from tests.conformance.sides import Side, Sides
from tests.plugins.kafka_nodes import KafkaNodes


@pytest.fixture(scope="session")
def sides(kafka: KafkaNodes) -> Generator[Sides]:
    """Both brokers: one node each, no topic made by asking for it.

    Yields:
        Them, ready.
    """
    config = EmbeddedConfig(auto_create_topics=False, default_replication_factor=1)
    with EmbeddedCluster(brokers=1, config=config) as cluster:
        embedded = Side("embedded", cluster.bootstrap_servers)
        yield Sides(embedded, Side("kafka", kafka.bootstrap_servers))


@pytest.fixture(params=Sides._fields)
def side(sides: Sides, request: pytest.FixtureRequest) -> Side:
    """Each of the two in turn.

    Returns:
        One of them.
    """
    one: Side = getattr(sides, request.param)
    return one
