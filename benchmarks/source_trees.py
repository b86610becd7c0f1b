"""The two trees that are compared: a directory that is built, or a commit that is checked out.

A commit is checked out into a git worktree below `build/old`, by its full name, and built there
once; the next run finds it. Modules with the same source in this tree are taken over with
its time instead of being compiled again, so that a commit not far away costs a minute.

Both trees run on this interpreter, beside the same libraries, built by the same compilers.

Thread-safety: one thread, the caller's.
Source: git-worktree(1).
"""

import contextlib
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.built_tree import build, compiled_modules, stale_modules, staleness  # noqa: E402 - of the source tree

KEPT_IN = "build/old"
COMMIT_DIGITS = 12


class NoTree(Exception):
    """A tree cannot be had; the text says why."""


def source_tree(name: str, root: Path = ROOT) -> Path:
    """Find a tree that is built, or check a commit out and build it.

    Args:
        name: A directory with a built tree, or anything that git calls a commit.
        root: A built tree with a git repository.

    Returns:
        The tree's directory, all compiled modules up to date.

    Raises:
        NoTree: It is neither, the directory is not built, or the commit does not build.
    """
    given = Path(name)
    if (given / "pyproject.toml").is_file():
        if stale := stale_modules(given):
            module, reason = next(iter(stale.items()))
            raise NoTree(f"{given} is not up to date: {module} {reason}; run make setup there")
        return given.resolve()
    tree = checked_out(commit_of(name, root), root)
    if stale_modules(tree):
        take_over(root, tree)
        try:
            build(tree, jobs=os.cpu_count() or 1)
        except RuntimeError as error:
            raise NoTree(str(error)) from error
    return tree


@contextlib.contextmanager
def copied(tree: Path) -> Generator[Path]:
    """Copy what a run needs of a tree, so that its files lie elsewhere in the machine's memory.

    Where the pages of a compiled module lie decides how its code and the data share the caches: the
    same tree's `send` took from 84 to 106 ns in copies of it, each time the same in one copy.

    Args:
        tree: A tree that is built.

    Yields:
        The copy's directory, which is deleted afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="kprod-tree-") as directory:
        for part in ("kprod", "benchmarks"):
            ignored = shutil.ignore_patterns("__pycache__", "*.c")
            shutil.copytree(tree / part, Path(directory) / part, ignore=ignored)
        yield Path(directory)


def commit_of(name: str, root: Path) -> str:
    """Return a commit's full name from git.

    Args:
        name: A branch, a tag, the beginning of a commit's name, and so on.
        root: Root of the repository.

    Returns:
        Forty hexadecimal digits.

    Raises:
        NoTree: There is no such commit.
    """
    run = _git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if run.returncode:
        raise NoTree(f"{name!r} is neither a built tree's directory nor a commit of {root}")
    return run.stdout.strip()


def checked_out(commit: str, root: Path) -> Path:
    """Check a commit out, unless it is.

    Args:
        commit: Its full name.
        root: Root of the repository.

    Returns:
        Path of the tree.

    Raises:
        NoTree: git fails, with its reason; or the checked-out tree was edited.
    """
    tree = root / KEPT_IN / commit[:COMMIT_DIGITS]
    if not (tree / "pyproject.toml").is_file():
        # Forced: a worktree that was deleted with the build directory is still registered.
        run = _git(root, "worktree", "add", "--force", "--detach", "--quiet", str(tree), commit)
        if run.returncode:
            raise NoTree(f"{commit} cannot be checked out: {run.stderr.strip()}")
    if _git(tree, "diff", "--quiet", commit).returncode:
        raise NoTree(f"{tree} is not what {commit} is: somebody has edited it; remove it")
    return tree


def take_over(source: Path, target: Path) -> None:
    """Spare a tree the compiling of what another has compiled from the same sources.

    Files with the same content get the same time. A module is taken over if its table and all its
    sources are the same. Cython still looks at what these include, and compiles the module where
    that differs.

    Args:
        source: A tree that is built, at least in part.
        target: A tree with sources only.
    """
    for path in (target / "kprod").rglob("*.p*"):
        twin = source / path.relative_to(target)
        if twin.is_file() and filecmp.cmp(twin, path, shallow=False):
            shutil.copystat(twin, path)
    here = {module.name: module for module in compiled_modules(source)}
    for module in compiled_modules(target):
        if here.get(module.name) != module or staleness(source, module) is not None:
            continue
        if not all(_is_same(source / name, target / name) for name in module.inputs):
            continue
        for name in module.outputs:
            if (source / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, target / name)


def _is_same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
