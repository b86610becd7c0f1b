"""Fixtures of pytest for tests of code that talks to Kafka: a cluster, started in milliseconds.

    def test_orders(kprod_cluster):
        kprod_cluster.create_topic("orders", 6)
        ...  # any Kafka client, on kprod_cluster.bootstrap_servers
        assert kprod_cluster.records("orders")

`kprod_cluster` is new for each test and made as the test's `kprod_cluster_options` fixture says;
`kprod_cluster_session` is one for the whole run: faster, and what a test leaves there others see.

pytest imports this module in every run of every project where kprod is installed, so it lies
outside the package and imports nothing of it until a fixture is used.

Thread-safety: pytest's own thread.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kprod.broker.cluster import EmbeddedCluster


@pytest.fixture
def kprod_cluster_options() -> dict[str, Any]:
    """What `kprod_cluster` is made with, arguments of `EmbeddedCluster`; override it at will."""
    return {}


@pytest.fixture
def kprod_cluster(kprod_cluster_options: dict[str, Any]) -> Iterator["EmbeddedCluster"]:
    """A cluster of three brokers without topics, for one test."""
    from kprod.broker.cluster import EmbeddedCluster  # noqa: PLC0415 - in the runs that use it

    with EmbeddedCluster(**kprod_cluster_options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kprod_cluster_session() -> Iterator["EmbeddedCluster"]:
    """A cluster of three brokers for all tests of the run."""
    from kprod.broker.cluster import EmbeddedCluster  # noqa: PLC0415 - in the runs that use it

    with EmbeddedCluster() as cluster:
        yield cluster
