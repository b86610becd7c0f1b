"""Test the kprod that is installed: `python -m tools.test_wheel`, as cibuildwheel runs it.

It is run in a copy of the tests without the package beside them, so that they import the wheel.
What only a checkout can pass (its layout, its documentation, its build) is left out, and what
needs Java.

Thread-safety: a program.
"""

import subprocess
import sys
from pathlib import Path

TESTS = ("_core", "compression", "record", "protocol", "timer", "cluster", "config", "network",
         "producer", "aio", "broker", "metrics", "serialization", "cli")  # fmt: skip
"""Folders of `tests` that need an installed kprod and no checkout."""

_LOCATE = "import kprod, kprod._core.record.batch as core; print(kprod.__file__, core.__file__)"


def main() -> int:
    """Run the tests; return pytest's exit code."""
    here = Path.cwd()
    found = subprocess.run(
        [sys.executable, "-c", _LOCATE], check=True, capture_output=True, text=True
    ).stdout.split()
    print("testing", *found, flush=True)
    if any(Path(path).is_relative_to(here) for path in found):
        sys.exit(f"kprod is imported from {here}: run this where no package lies beside the tests")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"),
            *("-m", "not kafka and not slow and not long and not checkout"),
            *(f"tests/{name}" for name in TESTS),
            *sys.argv[1:],
        ],
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
