"""Test with the oldest versions of all that kprod asks for: `make lowest`.

A lower bound that nobody has tried is a guess. The lowest versions that `pyproject.toml` allows are
resolved, for the required packages and for every extra but Spark's, which has tests and a pin of
its own; they are installed in an environment of their own, and what uses them is tested there, with
the tree's own modules.

Thread-safety: a program; it needs a built tree and a package index.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "lowest"
UV = Path(sys.executable).parent / "uv"
LEFT_OUT = {"azure", "demo", "gssapi", "msk", "spark"}
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
"""What uses codecs, checksums, JSON, Arrow, exporters, the command line, certificates."""


def main() -> int:
    """Resolve, install, test; return pytest's exit code."""
    python = HOME / "bin" / "python"
    lowest = HOME / "lowest.txt"
    _run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, HOME)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = sorted(settings["project"]["optional-dependencies"].keys() - LEFT_OUT)
    _run(
        *(UV, "pip", "compile", "--quiet", "--resolution", "lowest-direct"),
        *("--python", python, "--no-header", "--no-annotate", "--output-file", lowest),
        *(word for extra in extras for word in ("--extra", extra)),
        ROOT / "pyproject.toml",
    )
    print(lowest.read_text(encoding="utf-8"), flush=True)
    _run(
        *(UV, "pip", "install", "--quiet", "--python", python, "--requirement", lowest),
        *("--group", f"{ROOT / 'pyproject.toml'}:test", "opentelemetry-sdk", "duckdb", "polars"),
    )
    return subprocess.run(
        [
            *(str(python), "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"),
            *("-m", "not kafka and not slow and not long", "-p", "no:cacheprovider"),
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
