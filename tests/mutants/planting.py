"""A copy of the built tree in which one fault after the other is planted, and taken out again.

A build of everything takes minutes, that of a patched module seconds. So a copy has all that was
built, with its times; a patch makes a few sources newer, and only modules compiled from those are
built. Afterwards whatever differs from the original is put back as it was there, times included,
so that the next fault meets the tree as if nothing had been.

The original is a copy itself: somebody may continue editing the tree.

Thread-safety: a copy is one thread's.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.mutants.commands import Commands, Ended
from tools.built_tree import BUILD_DIRECTORY, build_command, stale_modules

# Made again where it is needed, or never: no test of a fault looks at it.
LEFT_OUT = (".*", "__pycache__", "build", "dist", "out", "*.egg-info")
BUILT = f"{BUILD_DIRECTORY}/lib"
NO_CACHE = ("-p", "no:cacheprovider")
FOUND, NOT_FOUND = "found", "NOT FOUND"
OF_EXIT_CODE = {0: NOT_FOUND, 1: FOUND}
"""pytest's 1 is "tests failed"; with any other code they were not run."""


def copy_tree(source: Path, target: Path) -> None:
    """Copy sources and the modules built from them, with their times.

    Args:
        source: A built tree.
        target: Is made.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
    if (source / BUILT).is_dir():
        shutil.copytree(source / BUILT, target / BUILT)


class PlantedTree:
    """One copy, for one fault at a time.

    Args:
        original: A tree that nobody changes; from `copy_tree`.
        tree: A copy of it, which is made here.
        commands: Runs git, compilers and tests.
    """

    def __init__(self, original: Path, tree: Path, commands: Commands) -> None:
        self._original, self._tree, self._commands = original, tree, commands
        copy_tree(original, tree)

    def outcome(self, patch: Path, tests: Sequence[str]) -> tuple[str, str]:
        """Run tests without a fault, plant it, run them again, and take it out.

        Args:
            patch: To be applied to the tree.
            tests: Arguments for pytest.

        Returns:
            `FOUND`, or why not; and the output of what failed, or of the tests.
        """
        sound = self._run_tests(tests)
        if sound.code:
            return "fails without the fault", sound.output  # and would with any
        try:
            return self._planted(patch, tests)
        finally:
            restore(self._original, self._tree)

    def _planted(self, patch: Path, tests: Sequence[str]) -> tuple[str, str]:
        applied = self._run(["git", "apply", str(patch)])
        if applied.code:
            return "patch does not apply", applied.output
        if next(differences(self._original, self._tree), None) is None:
            return "patch changes nothing", applied.output
        if stale_modules(self._tree):
            built = self._run(*build_command(self._tree))
            if built.code is None:
                return "building takes too long", built.output
            if built.code or stale_modules(self._tree):
                return "does not build", built.output
        ended = self._run_tests(tests)
        if ended.code is None:
            return "tests take too long", ended.output
        return OF_EXIT_CODE.get(ended.code, f"pytest: exit code {ended.code}"), ended.output

    def _run_tests(self, tests: Sequence[str]) -> Ended:
        return self._run([sys.executable, "-m", "pytest", "-q", "-x", *NO_CACHE, *tests])

    def _run(self, command: Sequence[str], variables: Mapping[str, str] | None = None) -> Ended:
        environment = {**(variables or os.environ), **self._variables()}
        return self._commands.run(command, self._tree, environment)

    def _variables(self) -> Mapping[str, str]:
        return {
            # Before the installed kprod, which is the original tree's; for tests' children too.
            "PYTHONPATH": str(self._tree),
            # Inside of a repository git would apply only the part below the directory.
            "GIT_CEILING_DIRECTORIES": str(self._tree.parent),
            # A fault that changes no size, planted in the second of the first run, would be hidden
            # by that run's bytecode.
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def differences(original: Path, tree: Path) -> Iterator[str]:
    """Compare two trees by the sizes and times of their files.

    Args:
        original: One.
        tree: The other.

    Yields:
        The paths, below both, of the files that are in one only, or differ.
    """
    before, now = _states(original), _states(tree)
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield name


def restore(original: Path, tree: Path) -> None:
    """Make a tree what it was: put back files that differ, remove new ones.

    Args:
        original: The original text.
        tree: Is changed.
    """
    for name in list(differences(original, tree)):
        if (original / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(original / name, tree / name)
        else:
            (tree / name).unlink(missing_ok=True)


def _states(tree: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for directory, names, files in os.walk(tree):
        names[:] = [name for name in names if name != "__pycache__" and not name.startswith(".")]
        for name in files:
            path = Path(directory, name)
            status = path.lstat()
            found[str(path.relative_to(tree))] = (status.st_mtime_ns, status.st_size)
    return found
