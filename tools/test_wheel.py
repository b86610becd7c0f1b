"""Test the kprod that is installed: `python -m tools.test_wheel`, as cibuildwheel runs it.

It runs in a copy of the tests without the package beside them, so that they import the wheel.
Tests that need a checkout (its layout, its documentation, its build) or Java are left out.

Thread-safety: a program.
"""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = ("_core", "compression", "record", "protocol", "timer", "cluster", "config", "network",
         "producer", "consumer", "aio", "broker", "metrics", "serialization", "cli", "perf",
         "safety/test_rejections.py", "test_errors.py", "test_help.py", "test_imports.py",
         "test_interfaces.py", "test_public_names.py", "test_reprs.py",
         "test_subclasses.py")  # fmt: skip
"""The parts of `tests` that need an installed kprod and no checkout."""

OPTIONAL = ("confluent_kafka.schema_registry", "duckdb", "polars")
"""Modules that are not built for every platform, or need much; their tests need not run there."""

LOCATE = "import kprod, kprod._core.clock as core; print(kprod.__file__, core.__file__)"
"""A program that tells where the package and one of its compiled modules are."""


def main() -> int:
    """Run the tests; return pytest's exit code."""
    here = Path.cwd()
    found = subprocess.run(
        [sys.executable, "-c", LOCATE], check=True, capture_output=True, text=True
    ).stdout.split()
    print("testing", *found, flush=True)
    if any(Path(path).is_relative_to(here) for path in found):
        sys.exit(f"kprod is imported from {here}: run this where no package lies beside the tests")
    left_out = list(files_without_their_peers())
    print("left out, as what they import is not here:", *left_out, flush=True)
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"),
            *("-m", "not kafka and not slow and not long and not checkout"),
            *(f"--ignore={path}" for path in left_out),
            *(f"tests/{name}" for name in TESTS),
            *sys.argv[1:],
        ],
        check=False,
    ).returncode


def files_without_their_peers() -> Iterator[Path]:
    """Find the tests that import one of `OPTIONAL` which cannot be imported here."""
    missing = [name for name in OPTIONAL if not _can_import(name)]
    if not missing:
        return
    imports = re.compile(
        rf"^\s*(?:import|from) (?:{'|'.join(map(re.escape, missing))})\b", re.MULTILINE
    )
    for path in sorted(Path("tests").rglob("test_*.py")):
        if imports.search(path.read_text(encoding="utf-8")):
            yield path


def _can_import(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
