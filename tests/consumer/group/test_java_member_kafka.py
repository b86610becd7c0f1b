"""kprod, another Python client and Java's console consumer in one group, on both brokers."""

import pytest

from kprod.broker import EmbeddedCluster
from tests.consumer.group.java_member import STRATEGIES, share_among_three
from tests.consumer.group.mixed import PARTITIONS
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_tools import KafkaTools

LONG = [it for it in STRATEGIES if it != "cooperative-sticky"]
CASES = ["cooperative-sticky", *(pytest.param(it, marks=pytest.mark.long) for it in LONG)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kprod_leads", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("strategy", CASES)
def test_a_group_of_three_on_apache_kafka(
    kafka: KafkaNodes, strategy: str, kprod_leads: bool
) -> None:
    """Nobody misses a record, and kprod is handed none twice."""
    topic = kafka.create_topic(f"three-{strategy}-{kprod_leads}", partitions=PARTITIONS)
    read = share_among_three(
        kafka.bootstrap_servers, topic, strategy, kprod_leads=kprod_leads, tools=kafka.tools
    )
    assert len(read) == len(set(read))


@pytest.mark.timeout(300)
@pytest.mark.long
@pytest.mark.parametrize("kprod_leads", [True, False])
@pytest.mark.parametrize("strategy", CASES)
def test_a_group_of_three_on_the_embedded_broker(
    kafka_artifacts: Artifacts, strategy: str, kprod_leads: bool
) -> None:
    """As on Apache Kafka."""
    with EmbeddedCluster(brokers=1, topics={"orders": PARTITIONS}) as cluster:
        read = share_among_three(
            cluster.bootstrap_servers,
            "orders",
            strategy,
            kprod_leads=kprod_leads,
            tools=KafkaTools(kafka_artifacts),
        )
    assert len(read) == len(set(read))
