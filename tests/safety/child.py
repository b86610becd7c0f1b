"""Run some lines in an interpreter of their own, since they may end it."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHILD_S = 120.0  # a child that takes longer hangs


def run_in_child(lines: str) -> list[str]:
    """Run lines of Python; return what they printed.

    Args:
        lines: The program, indented as in the test.

    Returns:
        The lines of its standard output.
    """
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(lines)],
        check=False,
        capture_output=True,
        cwd=ROOT,
        text=True,
        timeout=CHILD_S,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2_000:]}"
    return done.stdout.splitlines()
