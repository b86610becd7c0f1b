"""A fault in a copy of a small tree: what becomes of it, and that it is taken out afterwards."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutants.commands import Commands
from tests.mutants.planting import (
    BUILT,
    FOUND,
    NOT_FOUND,
    PlantedTree,
    copy_tree,
    differences,
    restore,
)

SOUND = "def double(number):\n    return 2 * number\n"
TEST = "from farm import double\n\ndef test_double():\n    assert double(3) == 6\n"
LIMIT_S = 60.0


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """Return a tree with one module and its test; nothing is compiled."""
    tree = tmp_path / "original"
    tree.mkdir()
    (tree / "pyproject.toml").write_text("[tool.setuptools]\next-modules = []\n", "utf-8")
    (tree / "farm.py").write_text(SOUND, "utf-8")
    (tree / "test_farm.py").write_text(TEST, "utf-8")
    return tree


def _patch(place: Path, name: str, before: str, after: str) -> Path:
    """Write a patch of one file."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    patch = place / "fault.patch"
    text = "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
    patch.write_text(text, "utf-8")
    return patch


def _outcome(original: Path, after: str, tests: Sequence[str] = ("test_farm.py",)) -> str:
    """Plant a fault in `farm.py`, and see that it was taken out."""
    copy = original.parent / "copy"
    tree = PlantedTree(original, copy, Commands(LIMIT_S))
    patch = _patch(original.parent, "farm.py", SOUND, after)
    arguments = ["-p", "no:randomly", "--rootdir", str(copy), *tests]
    outcome, _ = tree.outcome(patch, arguments)
    assert list(differences(original, copy)) == []
    return outcome


@pytest.mark.slow
def test_a_fault_that_a_test_sees_is_found(original: Path) -> None:
    """The test passes without it and fails with it."""
    assert _outcome(original, SOUND.replace("2", "3")) == FOUND


@pytest.mark.slow
def test_no_run_leaves_bytecode(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hide a fault of the same size, planted in the same second."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    test = "import sys\n\ndef test_it():\n    assert not sys.dont_write_bytecode\n"
    (original / "test_bytecode.py").write_text(test, "utf-8")
    outcome = _outcome(original, SOUND + "\nLEGS = 5\n", ["test_bytecode.py"])
    assert outcome == "fails without the fault"


@pytest.mark.slow
def test_a_fault_that_no_test_sees_is_not_found(original: Path) -> None:
    """The tests pass with it."""
    assert _outcome(original, SOUND + "\nLEGS = 5\n") == NOT_FOUND


@pytest.mark.slow
def test_a_test_that_fails_anyway_finds_nothing(original: Path) -> None:
    """It says nothing of the fault, whatever it says."""
    (original / "test_farm.py").write_text(TEST.replace("6", "7"), "utf-8")
    assert _outcome(original, SOUND.replace("2", "3")) == "fails without the fault"


@pytest.mark.slow
def test_tests_that_are_not_there_are_a_failure(original: Path) -> None:
    """A name that selects nothing must not look as if a fault was found."""
    assert _outcome(original, SOUND.replace("2", "3"), ["-k", "gone"]) == "fails without the fault"


@pytest.mark.slow
def test_a_fault_that_stops_the_tests_from_running_is_a_failure(original: Path) -> None:
    """Pytest's exit code 2: an import failed, and no promise was looked at."""
    assert _outcome(original, "def double(:\n") == "pytest: exit code 2"


@pytest.mark.slow
def test_a_patch_that_does_not_apply_is_a_failure(original: Path) -> None:
    """The code has moved on; the patch must follow it."""
    patch = _patch(original.parent, "farm.py", SOUND.replace("number", "count"), "")
    tree = PlantedTree(original, original.parent / "copy", Commands(LIMIT_S))
    outcome, output = tree.outcome(patch, ["-p", "no:randomly", "test_farm.py"])
    assert outcome == "patch does not apply"
    assert "farm.py" in output


def test_a_copy_has_built_modules_and_no_other_output(tmp_path: Path) -> None:
    """Extensions, and the library that builds compare with; no environment, no repository."""
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("kprod/cow.so", f"{BUILT}/cow.so", ".venv/x", ".git/x", "build/mutants/x"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name, "utf-8")
    copy_tree(source, target)
    copied = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert copied == {"kprod/cow.so", f"{BUILT}/cow.so"}
    assert list(differences(target, target)) == []


def test_what_a_build_has_left_is_taken_back(original: Path) -> None:
    """Edited, made and removed files are as they were, with their times."""
    copy = original.parent / "copy"
    copy_tree(original, copy)
    (copy / "farm.py").write_text("edited", "utf-8")
    (copy / "made.c").write_text("made", "utf-8")
    (copy / "test_farm.py").unlink()
    assert list(differences(original, copy)) == ["farm.py", "made.c", "test_farm.py"]
    restore(original, copy)
    assert list(differences(original, copy)) == []
    assert (copy / "farm.py").read_text("utf-8") == SOUND
