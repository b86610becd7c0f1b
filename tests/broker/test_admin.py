"""librdkafka's admin client against the embedded broker."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from kprod.broker import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One cluster for all tests."""
    with EmbeddedCluster(brokers=3) as running:
        yield running


def test_topics_are_made_grown_described_and_deleted(cluster: EmbeddedCluster) -> None:
    """The whole life of a topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    settings = {"retention.bytes": "1000", "cleanup.policy": "delete"}
    topic = NewTopic("admin", num_partitions=2, replication_factor=3, config=settings)
    admin.create_topics([topic])["admin"].result(20)
    admin.create_partitions([NewPartitions("admin", 5)])["admin"].result(20)

    described = admin.list_topics("admin", timeout=20).topics["admin"]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "admin")
    told = admin.describe_configs([resource])[resource].result(20)
    nodes = admin.describe_cluster().result(20).nodes
    admin.delete_topics(["admin"])["admin"].result(20)

    assert len(described.partitions) == 5
    assert sorted(described.partitions[0].replicas) == [0, 1, 2]
    assert told["retention.bytes"].value == "1000"
    assert len(nodes) == 3
    assert "admin" not in admin.list_topics(timeout=20).topics


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "settings"),
    [
        ("a b", 1, 1, {}),
        ("ok", 0, 1, {}),
        ("ok", 1, 4, {}),
        ("ok", 1, 1, {"retention.bytes": "many"}),
        ("ok", 1, 1, {"max.message.bytes": "-1"}),
        ("ok", 1, 1, {"retention.bites": "1"}),
    ],
)
def test_impossible_topics_are_rejected(
    cluster: EmbeddedCluster, name: str, partitions: int, replicas: int, settings: dict[str, str]
) -> None:
    """Illegal name, no partitions, more replicas than brokers, settings that make no sense."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=settings)

    with pytest.raises(KafkaException):
        admin.create_topics([topic])[name].result(20)
