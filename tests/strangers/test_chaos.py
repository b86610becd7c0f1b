"""Accidents of a group of three clients' members; `chaos.py` says which promises hold."""

from pathlib import Path

import pytest

from tests.plugins.kafka_artifacts import Artifacts
from tests.strangers.chaos import run, run_on_kafka


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_accidents_for_a_while(tmp_path: Path) -> None:
    """Members are killed and stalled, brokers stopped."""
    done = run(tmp_path, seconds=20, seed=1)
    assert done["kill"] + done["stall"] > 0


@pytest.mark.long
def test_accidents_for_ten_minutes(tmp_path: Path) -> None:
    """As in `python -m tests.strangers.chaos`."""
    done = run(tmp_path, seconds=600, seed=2)
    assert min(done[kind] for kind in ("kill", "stall", "leave", "move", "stop")) > 10


@pytest.mark.long
@pytest.mark.timeout(900)
def test_accidents_on_apache_kafka(kafka_artifacts: Artifacts, tmp_path: Path) -> None:
    """A minute, with brokers that are killed; ten are `make chaos-groups CHAOS=--kafka`."""
    done = run_on_kafka(kafka_artifacts, tmp_path, seconds=60, seed=1)
    assert done["crash"] > 0
