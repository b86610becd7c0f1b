"""Accidents of a group of three clients' members on Apache Kafka."""

from pathlib import Path

import pytest

from tests.plugins.kafka_artifacts import Artifacts
from tests.strangers.chaos import run_on_kafka


@pytest.mark.long
@pytest.mark.timeout(900)
def test_accidents_on_apache_kafka(kafka_artifacts: Artifacts, tmp_path: Path) -> None:
    """A minute, with brokers that are killed; ten are `make chaos-groups CHAOS=--kafka`."""
    done = run_on_kafka(kafka_artifacts, tmp_path, seconds=60, seed=1)
    assert done["crash"] > 0
