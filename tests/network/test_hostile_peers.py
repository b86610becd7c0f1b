"""Whatever a broker answers: memory is bounded by the bytes received and the request."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network.hostile import ATTACKS

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120  # ends a broken test, never its rhythm
SLACK_BYTES = 64 * 1024
PARTITION_BYTES = 700  # for each partition that was asked about


@pytest.mark.parametrize("attack", ATTACKS)
def test_memory_is_bounded_by_arrived_bytes_and_the_request(attack: str) -> None:
    """Twice the bytes received, 64 KiB, and 700 bytes for each partition that was asked about."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.network.hostile", attack],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    measured = json.loads(done.stdout)
    asked_bytes = PARTITION_BYTES * measured["partitions_asked"]
    limit_bytes = 2 * measured["received_bytes"] + SLACK_BYTES + asked_bytes

    assert measured["received_bytes"] > 50
    assert measured["peak_bytes"] <= limit_bytes
    assert measured["kept_bytes"] <= SLACK_BYTES + asked_bytes
