"""The sender dies at any line of its code: every record is settled, and nobody waits for ever."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHORT_STEPS = 40
EVERY_LINE = 1_000_000


def _die(step_count: int, timeout_s: float, *fault: str) -> str:
    """Return the complaints of a run of `tests.producer.deaths`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.producer.deaths", str(step_count), *fault],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return done.stderr if done.returncode else ""


@pytest.mark.slow
def test_death_at_many_lines() -> None:
    """Spread over the whole run, from the first turn to the last response."""
    assert not _die(SHORT_STEPS, 100)


@pytest.mark.long
def test_death_at_every_line() -> None:
    """The same at each."""
    assert not _die(EVERY_LINE, 3_000)


@pytest.mark.slow
def test_a_memory_error_at_many_lines_leaves_no_record_unsettled() -> None:
    """The producer continues with all its memory, or rejects and says why; nothing in between."""
    assert not _die(SHORT_STEPS, 100, "MemoryError")


@pytest.mark.long
def test_a_memory_error_at_every_line_leaves_no_record_unsettled() -> None:
    """The same at each."""
    assert not _die(EVERY_LINE, 3_000, "MemoryError")
