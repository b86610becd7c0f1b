"""Other clients' own integration tests that use groups pass here as on Apache Kafka."""

from collections.abc import Generator
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.strangers.suites import SUITES, Suite, run, unpacked

PARTITIONS, SESSION_MIN_MS = 2, 1_000
"""Settings that the suites expect of their own servers."""


@pytest.fixture(params=["embedded", "kafka"])
def servers(request: pytest.FixtureRequest, kafka_artifacts: Artifacts) -> Generator[str]:
    """A fresh broker of each kind.

    Yields:
        Its address.
    """
    if request.param == "embedded":
        config = EmbeddedConfig(
            default_replication_factor=1,
            default_partitions=PARTITIONS,
            group_min_session_timeout_ms=SESSION_MIN_MS,
        )
        with EmbeddedCluster(brokers=1, config=config) as cluster:
            yield cluster.bootstrap_servers
        return
    settings = {
        "num.partitions": str(PARTITIONS),
        "group.min.session.timeout.ms": str(SESSION_MIN_MS),
    }
    with KafkaNodes(kafka_artifacts, settings=settings, auto_create_topics=True) as nodes:
        yield nodes.bootstrap_servers


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.distribution)
def test_all_selected_tests_pass(suite: Suite, servers: str, tmp_path: Path) -> None:
    """None fails, and most are not skipped."""
    outcomes = run(suite, unpacked(suite, tmp_path), servers)
    assert not outcomes.failed
    assert len(outcomes.passed) > len(outcomes.skipped)
