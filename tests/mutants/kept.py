"""Keeps the findings of earlier runs until something that they depend on has changed.

A fault that was found is found again by the same tests in the same tree, so it is not planted
again. What it depends on is hashed: the patch, the tests' names, the files that hold them, all that
is compiled or imported from the tree, and the interpreter. Only "found" is kept: a failure is to be
looked at, mended and tried again.

Thread-safety: one thread for each mutant.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FOUND = "found"
SOURCES = ("kprod/**/*.py", "kprod/**/*.py?", "benchmarks/*.py", "tools/*.py", "pyproject.toml")
SUPPORT = "tests/**/*"
"""Files below tests that tests use, but that are no tests themselves."""

Mutant = Mapping[str, Any]


class KeptResults:
    """Results in a directory, a file for each mutant.

    Args:
        directory: Is made when a result is kept.
        tree: Tree with the sources that the results depend on; they are read once, here.
    """

    def __init__(self, directory: Path, tree: Path) -> None:
        self._directory = directory
        self._tree = tree
        self._of_tree = digest_of_files(tree, source_files(tree))

    def digest(self, mutant: Mutant, patch: Path) -> str:
        """Hash what a mutant's result depends on.

        Args:
            mutant: Its row in the table.
            patch: Its patch; need not exist.

        Returns:
            A text that differs where the result may.
        """
        parts = [self._of_tree, sys.version]
        parts += [str(mutant.get("fuzz")), *mutant.get("test", ())]
        parts.append(digest_of_files(self._tree, [patch, *files_of_tests(mutant, self._tree)]))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def is_found(self, name: str, digest: str) -> bool:
        """Whether the fault was found before, in the same circumstances."""
        return self._read(name).get("digest") == digest

    def seconds(self, name: str) -> float | None:
        """How long it took last time, whatever has changed since; None if that is not known."""
        found = self._read(name).get("seconds")
        return float(found) if isinstance(found, int | float) else None

    def keep(self, name: str, digest: str, seconds: float) -> None:
        """Write down that a fault was found.

        Args:
            name: The mutant's.
            digest: From `digest`, taken before the tests ran.
            seconds: Duration of the run.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{name}.json"
        unfinished = path.with_suffix(".part")
        content = {"digest": digest, "outcome": FOUND, "seconds": round(seconds, 1)}
        unfinished.write_text(json.dumps(content), "utf-8")
        unfinished.replace(path)  # an interrupted run leaves the old result or the new one

    def _read(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self._directory / f"{name}.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


def source_files(tree: Path) -> list[Path]:
    """List what every test depends on.

    Args:
        tree: The project.

    Returns:
        The package's sources, the programs that tests import, and the tests' own support.
    """
    found = {path for pattern in SOURCES for path in tree.glob(pattern)}
    for path in tree.glob(SUPPORT):
        is_test = path.name.startswith("test_") and path.suffix == ".py"
        is_fault = path.is_relative_to(tree / "tests" / "mutants")
        if path.is_file() and not is_test and not is_fault and "__pycache__" not in path.parts:
            found.add(path)
    return sorted(found)


def files_of_tests(mutant: Mutant, tree: Path) -> list[Path]:
    """List the files of the tests that a mutant names.

    Args:
        mutant: Its row in the table.
        tree: The project.

    Returns:
        Those paths that exist; for a directory, everything in it.
    """
    found: list[Path] = []
    for argument in mutant.get("test", ()):
        path = tree / argument.partition("::")[0]
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            found += sorted(path.rglob("*.py"))
    return found


def digest_of_files(tree: Path, paths: Iterable[Path]) -> str:
    """Hash names and contents.

    Args:
        tree: Names are taken from there on.
        paths: Below the tree; a missing one counts as such.

    Returns:
        Hexadecimal digits.
    """
    total = hashlib.sha256()
    for path in paths:
        name = str(path.relative_to(tree))
        content = path.read_bytes() if path.is_file() else None
        of_content = "none" if content is None else hashlib.sha256(content).hexdigest()
        total.update(f"{name}\0{of_content}\0".encode())
    return total.hexdigest()
