"""Results are kept if patch, tests and sources are unchanged, and only for found faults."""

from pathlib import Path

import pytest

from tests.mutants.kept import KeptResults, files_of_tests

MUTANT = {"name": "legs", "test": ["tests/test_cow.py", "-k", "legs"], "breaks": "a cow has four"}
FILES = {
    "pyproject.toml": "",
    "kprod/cow.py": "legs = 4",
    "kprod/hen.pyx": "legs = 2",
    "tests/test_cow.py": "legs",
    "tests/test_hen.py": "legs",
    "tests/meadow.py": "grass",
    "tests/mutants/legs.patch": "-4 +5",
    "tests/mutants/other.patch": "-2 +3",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with sources, tests and patches."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    return tmp_path


def _kept(tree: Path) -> KeptResults:
    return KeptResults(tree / "build" / "mutants", tree)


def _digest(tree: Path) -> str:
    return _kept(tree).digest(MUTANT, tree / "tests/mutants/legs.patch")


def test_found_faults_are_not_run_again(tree: Path) -> None:
    """The next run knows it, and how long it took."""
    _kept(tree).keep("legs", _digest(tree), 12.34)
    again = _kept(tree)
    assert again.is_found("legs", _digest(tree))
    assert not again.is_found("other", _digest(tree))
    assert again.seconds("legs") == pytest.approx(12.3)
    assert again.seconds("other") is None


@pytest.mark.parametrize(
    "name",
    [
        "pyproject.toml",
        "kprod/cow.py",
        "kprod/hen.pyx",
        "tests/test_cow.py",
        "tests/meadow.py",
        "tests/mutants/legs.patch",
    ],
)
def test_a_change_of_what_it_depends_on_runs_it_again(tree: Path, name: str) -> None:
    """Sources, its own tests and patch, and what tests stand on; its length stays known."""
    kept = _kept(tree)
    kept.keep("legs", _digest(tree), 12.0)
    (tree / name).write_text("changed", "utf-8")
    assert not _kept(tree).is_found("legs", _digest(tree))
    assert kept.seconds("legs") == pytest.approx(12.0)


@pytest.mark.parametrize("name", ["tests/test_hen.py", "tests/mutants/other.patch"])
def test_a_change_of_other_tests_and_faults_does_not(tree: Path, name: str) -> None:
    """The result of this fault cannot depend on them."""
    before = _digest(tree)
    (tree / name).write_text("changed", "utf-8")
    assert _digest(tree) == before


def test_other_tests_named_for_it_run_it_again(tree: Path) -> None:
    """Another selection may not find it."""
    narrower = {**MUTANT, "test": [*MUTANT["test"], "--maxfail=1"]}
    patch = tree / "tests/mutants/legs.patch"
    assert _kept(tree).digest(narrower, patch) != _digest(tree)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"digest": 3}'])
def test_a_damaged_result_is_none(tree: Path, content: str) -> None:
    """It is run again, and overwritten."""
    path = tree / "build/mutants/legs.json"
    path.parent.mkdir(parents=True)
    path.write_text(content, "utf-8")
    kept = _kept(tree)
    assert not kept.is_found("legs", _digest(tree))
    assert kept.seconds("legs") is None
    kept.keep("legs", _digest(tree), 1.0)
    assert kept.is_found("legs", _digest(tree))


@pytest.mark.parametrize(
    ("argument", "files"),
    [
        ("tests/test_cow.py", ["tests/test_cow.py"]),
        ("tests/test_cow.py::test_legs", ["tests/test_cow.py"]),
        ("tests/mutants", []),
        ("tests", ["tests/meadow.py", "tests/test_cow.py", "tests/test_hen.py"]),
        ("-k", []),
        ("tests/gone.py", []),
    ],
)
def test_the_files_of_a_selection(tree: Path, argument: str, files: list[str]) -> None:
    """A file, a test in it, a directory; options name none."""
    found = files_of_tests({**MUTANT, "test": [argument]}, tree)
    assert [str(path.relative_to(tree)) for path in found] == files
