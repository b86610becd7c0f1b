"""Accidents of a group of three clients' members; `chaos.py` says which promises hold."""

from pathlib import Path

import pytest

from tests.strangers.chaos import run


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_accidents_for_a_while(tmp_path: Path) -> None:
    """Members are killed and stalled, brokers stopped."""
    done = run(tmp_path, seconds=60, seed=1)
    assert done["kill"] + done["stall"] > 0


@pytest.mark.long
def test_accidents_for_ten_minutes(tmp_path: Path) -> None:
    """As in `python -m tests.strangers.chaos`."""
    done = run(tmp_path, seconds=600, seed=2)
    assert min(done[kind] for kind in ("kill", "stall", "leave", "move", "stop")) > 10
