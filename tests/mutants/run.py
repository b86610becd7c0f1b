"""Plant each fault in a copy of the tree and see that its tests find it.

Run as a script: `python tests/mutants/run.py [name …]`.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# With what is compiled and what it was compiled to, so that only what a patch touches is built.
COPIED = ("kprod", "build", "tests", "benchmarks", "pyproject.toml", "README.md", "LICENSE")
TIMEOUT_S = 300
BUILD = ["-c", "from setuptools import setup; setup()", "-q", "build_ext", "--inplace"]


def run(command: Sequence[str], tree: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the copy."""
    return subprocess.run(
        command, cwd=tree, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def is_compiled(patch: Path, tree: Path) -> bool:
    """Whether a patch touches what must be built again: all such has a `.pxd` beside it."""
    touched = re.findall(r"^\+\+\+ b/(\S+)", patch.read_text("utf-8"), re.MULTILINE)
    return any((tree / name).with_suffix(".pxd").exists() for name in touched)


def outcome(mutant: dict[str, Any]) -> str:
    """Plant one fault; what became of it: found, or why not."""
    if "fuzz" in mutant:
        search = ["-m", "tests.fuzz", "--target", mutant["fuzz"], "--planted-only"]
        return "NOT FOUND" if run([sys.executable, *search], ROOT).returncode else "found"
    patch = HERE / f"{mutant['name']}.patch"
    with tempfile.TemporaryDirectory(prefix="kprod-mutant-") as directory:
        tree = Path(directory)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, tree / name)
        if run(["git", "apply", "--unsafe-paths", str(patch)], tree).returncode:
            return "patch does not apply"
        if is_compiled(patch, tree) and run([sys.executable, *BUILD], tree).returncode:
            return "does not build"
        tests = run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant["test"]],
            tree,
        )
        # 1 is "tests failed"; any other code means that they were not run.
        return {0: "NOT FOUND", 1: "found"}.get(
            tests.returncode, f"pytest: exit code {tests.returncode}"
        )


def main(names: Sequence[str]) -> int:
    """Run the named mutants, or all; print a table."""
    mutants = tomllib.loads((HERE / "mutants.toml").read_text("utf-8"))["mutant"]
    known = {mutant["name"] for mutant in mutants}
    if unknown := set(names) - known:
        print(f"no such mutant: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
        return 2
    missed = 0
    for mutant in mutants:
        if names and mutant["name"] not in names:
            continue
        result = outcome(mutant)
        missed += result != "found"
        print(f"{mutant['name']:40} {result:22} {mutant['breaks']}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
