"""Groups of kprod and other clients on the embedded broker, with each assignor, each as leader."""

import pytest

from kprod.broker import EmbeddedCluster
from tests.consumer.group.mixed import CASES, PARTITIONS, Place, share_a_topic

FEW = [("confluent", "cooperative-sticky"), ("kafka-python", "sticky"), ("aiokafka", "range")]


def share(peer: str, strategy: str, *, kprod_leads: bool) -> list[Place]:
    """Run a case on a cluster of its own."""
    with EmbeddedCluster(brokers=1, topics={"orders": PARTITIONS}) as cluster:
        return share_a_topic(
            cluster.bootstrap_servers, "orders", peer, strategy, kprod_leads=kprod_leads
        )


@pytest.mark.parametrize(("peer", "strategy"), FEW)
def test_a_group_of_two_clients_led_by_kprod(peer: str, strategy: str) -> None:
    """Nobody misses a record, and kprod is handed none twice."""
    read = share(peer, strategy, kprod_leads=True)
    assert len(read) == len(set(read))


@pytest.mark.long
@pytest.mark.parametrize("kprod_leads", [True, False])
@pytest.mark.parametrize(("peer", "strategy"), CASES)
def test_a_group_of_two_clients(peer: str, strategy: str, kprod_leads: bool) -> None:
    """Nobody misses a record, and kprod is handed none twice."""
    read = share(peer, strategy, kprod_leads=kprod_leads)
    assert len(read) == len(set(read))
