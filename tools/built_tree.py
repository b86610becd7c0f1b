"""What of a source tree is compiled, whether that is up to date, and how to bring it up to date.

A compiled module is stale when its extension file is missing, or older than one of the files that
its table in `pyproject.toml` lists. That is setuptools' own rule, so a build clears every finding.

Thread-safety: any thread; nothing is kept.
Source: setuptools `build_ext`, which compares `sources` and `depends` with the extension's file.
"""

import importlib.machinery
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MISSING = "is not built for this interpreter"
BUILD_SCRIPT = "from setuptools import setup; setup()"
# One directory for each virtual environment, as the Makefile has it.
BUILD_DIRECTORY = f"build/of{Path(sys.prefix).name}"


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """One extension module of a tree.

    Attributes:
        name: Dotted.
        table: Its whole table of `pyproject.toml`.
        inputs: Paths below the tree of what it is compiled from, its own source first.
    """

    name: str
    table: Mapping[str, Any]
    inputs: tuple[str, ...]

    @property
    def extension(self) -> str:
        """The path, below the tree, of what this interpreter loads."""
        return self.name.replace(".", "/") + importlib.machinery.EXTENSION_SUFFIXES[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Paths below the tree of all that a build of this interpreter writes for it."""
        generated = str(Path(self.inputs[0]).with_suffix(".c"))
        return self.extension, f"{BUILD_DIRECTORY}/lib/{self.extension}", generated


def compiled_modules(tree: Path) -> list[CompiledModule]:
    """Read which modules of a tree are compiled.

    Args:
        tree: Has a `pyproject.toml`.

    Returns:
        The modules, in the order of the file.
    """
    content = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))
    return [
        CompiledModule(
            table["name"], table, tuple(dict.fromkeys([*table["sources"], *table["depends"]]))
        )
        for table in content["tool"]["setuptools"]["ext-modules"]
    ]


def staleness(tree: Path, module: CompiledModule) -> str | None:
    """Say why a module must be built before what it was compiled from can be trusted to run.

    Args:
        tree: Where it is.
        module: One of the tree's.

    Returns:
        The reason; None if it is up to date.
    """
    extension = tree / module.extension
    if not extension.exists():
        return MISSING
    built_ns = extension.stat().st_mtime_ns
    for name in module.inputs:
        path = tree / name
        if path.exists() and path.stat().st_mtime_ns > built_ns:
            return f"was built before {name} was changed"
    return None


def stale_modules(tree: Path) -> dict[str, str]:
    """Find the modules that must be built.

    Args:
        tree: Has a `pyproject.toml`.

    Returns:
        The reason by the module's name; empty if all is up to date.
    """
    found = ((module.name, staleness(tree, module)) for module in compiled_modules(tree))
    return {name: reason for name, reason in found if reason is not None}


def build_command(tree: Path, *, jobs: int = 1) -> tuple[Sequence[str], Mapping[str, str]]:
    """Prepare a build of what is stale in a tree, where the Makefile would build it.

    Args:
        tree: Gets a file of settings for the build, and later what is built.
        jobs: Compilers at work at once, at least 1.

    Returns:
        The command, to be run in the tree, and its environment.
    """
    settings = tree / BUILD_DIRECTORY / "build.cfg"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(
        f"[build_ext]\nbuild_lib={BUILD_DIRECTORY}/lib\nbuild_temp={BUILD_DIRECTORY}/temp\n"
        f"inplace=1\nparallel={jobs}\n",
        "utf-8",
    )
    command = [sys.executable, "-W", "ignore", "-c", BUILD_SCRIPT, "--quiet", "build_ext"]
    return command, {**os.environ, "DIST_EXTRA_CONFIG": str(settings)}


def build(tree: Path, *, jobs: int = 1) -> None:
    """Build what is stale in a tree.

    Args:
        tree: As for `build_command`.
        jobs: As there.

    Raises:
        RuntimeError: It does not build; with the end of what the compilers said.
    """
    command, environment = build_command(tree, jobs=jobs)
    run = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    left = stale_modules(tree)
    if run.returncode or left:
        said = f"{run.stdout[-2000:]}\n{run.stderr[-4000:]}"
        raise RuntimeError(f"{tree} does not build; stale: {', '.join(left) or 'nothing'}\n{said}")
