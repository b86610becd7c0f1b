"""Fixtures of pytest for tests of code that talks to Kafka: a cluster, started in milliseconds.

Example::

    @pytest.mark.kprod(topics={"orders": 6})
    def test_orders(kprod_cluster):
        ...  # any Kafka client, on kprod_cluster.bootstrap_servers
        assert kprod_cluster.wait_for_records("orders", 10)

`kprod_cluster` is new for each test, and made as the marker `kprod` or the test's
`kprod_cluster_options` fixture says; `kprod_cluster_session` is one for the whole run, made as
`kprod_cluster_session_options` says: faster, and other tests see the records that a test leaves
there. `kprod_bootstrap_servers` and `kprod_session_bootstrap_servers` are their addresses alone.

A fault that a test armed and no request ever met is a warning: the test shows less than it seems
to.

pytest imports this module in every run of every project where kprod is installed, so it lies
outside the package and imports nothing of it until a fixture is used.

Thread-safety: pytest's own thread.
"""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kprod.broker.cluster import EmbeddedCluster

_MARKER = "kprod"


class UntriggeredFaultWarning(UserWarning):
    """A test armed a fault that no request met."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "kprod(brokers=3, topics={name: partitions}, setting=value, ...): how the kprod_cluster of"
        " this test is made; arguments of EmbeddedCluster",
    )


@pytest.fixture
def kprod_cluster_options() -> dict[str, Any]:
    """Arguments of `EmbeddedCluster` for `kprod_cluster`; override it at will."""
    return {}


@pytest.fixture(scope="session")
def kprod_cluster_session_options() -> dict[str, Any]:
    """Arguments of `EmbeddedCluster` for `kprod_cluster_session`; override it in a conftest.py."""
    return {}


@pytest.fixture
def kprod_cluster(
    request: pytest.FixtureRequest, kprod_cluster_options: dict[str, Any]
) -> Iterator["EmbeddedCluster"]:
    """A cluster of three brokers without topics, for one test.

    Yields:
        The cluster, running.
    """
    options = dict(kprod_cluster_options)
    for marker in reversed(list(request.node.iter_markers(_MARKER))):  # the nearest wins
        if marker.args:
            pytest.fail(f"the marker {_MARKER} takes arguments by name, got {marker.args!r}")
        options |= marker.kwargs
    with _cluster(options) as cluster:
        yield cluster
        _warn_of_untriggered(cluster)


@pytest.fixture(scope="session")
def kprod_cluster_session(
    kprod_cluster_session_options: dict[str, Any],
) -> Iterator["EmbeddedCluster"]:
    """A cluster of three brokers for all tests of the run.

    Yields:
        The cluster, running.
    """
    with _cluster(kprod_cluster_session_options) as cluster:
        yield cluster
        _warn_of_untriggered(cluster)


@pytest.fixture
def kprod_bootstrap_servers(kprod_cluster: "EmbeddedCluster") -> str:
    """The address of a cluster for one test, for settings of any client."""
    return kprod_cluster.bootstrap_servers


@pytest.fixture(scope="session")
def kprod_session_bootstrap_servers(kprod_cluster_session: "EmbeddedCluster") -> str:
    """The address of the cluster for all tests of the run."""
    return kprod_cluster_session.bootstrap_servers


def _cluster(options: dict[str, Any]) -> "EmbeddedCluster":
    from kprod.broker import EmbeddedCluster  # noqa: PLC0415 - in the runs that use it

    return EmbeddedCluster(**options)


def _warn_of_untriggered(cluster: "EmbeddedCluster") -> None:
    for fault in cluster.faults.untriggered():
        warnings.warn(
            f"a fault was armed and no request met it: {fault.text}; clear it with"
            " faults.clear() if that is meant",
            UntriggeredFaultWarning,
            stacklevel=2,
        )
