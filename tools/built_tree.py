"""Finds compiled modules of a source tree that are out of date, and builds them.

Every `.pyx` is compiled, and every `.py` that has a `.pxd` of the same name beside it. A module is
compiled from that file and from each `.pxd` that it cimports, directly or through another one. It
is stale when its extension file is missing, or older than one of these. That is setuptools' own
rule, so a build clears every finding.

Thread-safety: any thread; nothing is kept.
Source: setuptools `build_ext`, which compares `sources` and `depends` with the extension's file.
"""

import importlib.machinery
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MISSING = "is not built for this interpreter"
PACKAGE = "kprod"
# A commit that has no `setup.py` lists its modules in `pyproject.toml`.
OLD_BUILD_SCRIPT = ("-c", "from setuptools import setup; setup()")
_CIMPORT = re.compile(r"^from (kprod\.[\w.]+) cimport", re.MULTILINE)
_OPTIONS = re.compile(r"^# distutils: extra_compile_args = (.+)$", re.MULTILINE)
# One directory for each virtual environment, as the Makefile has it.
BUILD_DIRECTORY = f"build/of{Path(sys.prefix).name}"


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """One extension module of a tree.

    Attributes:
        name: Dotted.
        inputs: Paths below the tree of what it is compiled from, its own source first.
        compiler_options: Compiler options of this source beside those of all modules.
    """

    name: str
    inputs: tuple[str, ...]
    compiler_options: tuple[str, ...]

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
    """Find which modules of a tree are compiled.

    Args:
        tree: A tree with a `pyproject.toml`.

    Returns:
        The modules, sorted by name.
    """
    if (tree / "setup.py").exists():
        return [_module(tree, source) for source in _sources(tree)]
    content = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))
    return [
        CompiledModule(
            table["name"],
            tuple(dict.fromkeys([*table["sources"], *table["depends"]])),
            tuple(table.get("extra-compile-args", ())),
        )
        for table in content["tool"]["setuptools"]["ext-modules"]
    ]


def _sources(tree: Path) -> list[Path]:
    typed = [path.with_suffix(".py") for path in (tree / PACKAGE).rglob("*.pxd")]
    found = [*(tree / PACKAGE).rglob("*.pyx"), *(path for path in typed if path.exists())]
    return sorted(path.relative_to(tree) for path in found)


def _module(tree: Path, source: Path) -> CompiledModule:
    name = ".".join(source.with_suffix("").parts)
    options = _OPTIONS.search((tree / source).read_text("utf-8"))
    return CompiledModule(
        name,
        (str(source), *sorted(_headers(tree, source) - {str(source)})),
        tuple(options[1].split()) if options else (),
    )


def _headers(tree: Path, source: Path) -> set[str]:
    """Find every `.pxd` that a module includes, through others too."""
    found, left = set[str](), [source, source.with_suffix(".pxd")]
    while left:
        path = left.pop()
        if str(path) in found or not (tree / path).exists():
            continue
        found.add(str(path))
        names = _CIMPORT.findall((tree / path).read_text("utf-8"))
        left += [Path(*name.split(".")).with_suffix(".pxd") for name in names]
    return found


def staleness(tree: Path, module: CompiledModule) -> str | None:
    """Say why a module must be built before what it was compiled from can be trusted to run.

    Args:
        tree: Directory of the tree.
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
        tree: A tree with a `pyproject.toml`.

    Returns:
        The reason by the module's name; empty if all is up to date.
    """
    found = ((module.name, staleness(tree, module)) for module in compiled_modules(tree))
    return {name: reason for name, reason in found if reason is not None}


def orphans(tree: Path) -> list[str]:
    """Find extension files whose source is gone; imports would still find them.

    Args:
        tree: As for `stale_modules`.

    Returns:
        Their paths below the tree, sorted.
    """
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    known = {module.extension for module in compiled_modules(tree)}
    found = {str(path.relative_to(tree)) for path in (tree / PACKAGE).rglob(f"*{suffix}")}
    return sorted(found - known)


def build_command(tree: Path, *, jobs: int = 1) -> tuple[Sequence[str], Mapping[str, str]]:
    """Prepare a build of the stale modules of a tree, where the Makefile would build it.

    Args:
        tree: Gets a file of settings for the build, and later the built modules.
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
    script = ("setup.py",) if (tree / "setup.py").exists() else OLD_BUILD_SCRIPT
    command = [sys.executable, "-W", "ignore", *script, "--quiet", "build_ext"]
    return command, {**os.environ, "DIST_EXTRA_CONFIG": str(settings)}


def build(tree: Path, *, jobs: int = 1) -> None:
    """Build the stale modules of a tree.

    Args:
        tree: As for `build_command`.
        jobs: Number of parallel jobs.

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
