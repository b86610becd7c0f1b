"""Groups of kprod and other clients on Apache Kafka, with each assignor, each as leader."""

import logging

import pytest

from tests.consumer.group.mixed import CASES, PARTITIONS, share_a_topic
from tests.plugins.kafka_nodes import KafkaNodes

FEW = [("confluent", "range"), ("kafka-python", "cooperative-sticky"), ("aiokafka", "sticky")]


@pytest.mark.parametrize(("peer", "strategy"), FEW)
def test_a_group_of_two_clients_led_by_the_other(
    kafka: KafkaNodes, peer: str, strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody misses a record, and kprod is handed none twice."""
    # On a starved machine kafka-python twice left two partitions unread: a failure shows its log.
    caplog.set_level(logging.DEBUG, logger="kafka")
    topic = kafka.create_topic(f"{peer}-{strategy}-few", partitions=PARTITIONS)
    read = share_a_topic(kafka.bootstrap_servers, topic, peer, strategy, kprod_leads=False)
    assert len(read) == len(set(read))


@pytest.mark.long
@pytest.mark.parametrize("kprod_leads", [True, False])
@pytest.mark.parametrize(("peer", "strategy"), CASES)
def test_a_group_of_two_clients(
    kafka: KafkaNodes, peer: str, strategy: str, kprod_leads: bool
) -> None:
    """Nobody misses a record, and kprod is handed none twice."""
    topic = kafka.create_topic(f"{peer}-{strategy}-{kprod_leads}", partitions=PARTITIONS)
    read = share_a_topic(kafka.bootstrap_servers, topic, peer, strategy, kprod_leads=kprod_leads)
    assert len(read) == len(set(read))
