"""The look at compiled modules: it sees an edited source, a missing build, and ends the session."""

import os
from pathlib import Path

import pytest

from tests.plugins import fresh_build
from tools.built_tree import MISSING, CompiledModule, compiled_modules, stale_modules, staleness

SOURCES = {
    "cow.py": "",
    "cow.pxd": "from kprod.grass cimport Blade",
    "grass.pxd": "from kprod.soil cimport Grain",
    "soil.pxd": "",
    "farmer.py": "",
}
BUILT_S = 1_000_000


def _set_time(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """Return a tree with one compiled module, up to date."""
    (tmp_path / "setup.py").touch()
    (tmp_path / "kprod").mkdir()
    for name, text in SOURCES.items():
        (tmp_path / "kprod" / name).write_text(text, "utf-8")
        _set_time(tmp_path / "kprod" / name, BUILT_S - 1)
    extension = tmp_path / compiled_modules(tmp_path)[0].extension
    extension.touch()
    _set_time(extension, BUILT_S)
    return tmp_path


def test_modules_built_after_their_sources_are_up_to_date(farm: Path) -> None:
    """Nothing is found where the extension is the newest file."""
    assert stale_modules(farm) == {}


@pytest.mark.parametrize("name", ["cow.py", "cow.pxd", "grass.pxd", "soil.pxd"])
def test_a_source_that_was_edited_since_is_named(farm: Path, name: str) -> None:
    """The module's own source, its header, and what that includes, directly or not, all count."""
    _set_time(farm / "kprod" / name, BUILT_S + 1)
    assert stale_modules(farm) == {"kprod.cow": f"was built before kprod/{name} was changed"}


def test_a_module_without_an_extension_is_stale(farm: Path) -> None:
    """A `.py` would be imported as it is, unlike the shipped module."""
    module: CompiledModule
    (module,) = compiled_modules(farm)
    (farm / module.extension).unlink()
    assert staleness(farm, module) == MISSING


def test_the_text_says_what_to_run() -> None:
    """It names a few modules, counts the rest, and gives the command."""
    one = fresh_build.complaint({"farm.cow": "is not built"})
    assert one.startswith("1 compiled module is not up to date")
    assert "run make setup" in one
    assert "farm.cow is not built" in one
    assert "rm -f" not in one
    assert "rm -f .venv/.built; make setup" in fresh_build.complaint({"farm.cow": MISSING})
    many = fresh_build.complaint({f"farm.cow{number}": "is old" for number in range(8)})
    assert many.startswith("8 compiled modules are not")
    assert many.endswith("and 3 more")


def test_a_session_in_a_stale_tree_does_not_begin(
    pytester: pytest.Pytester, farm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test runs, the exit code is that of a usage error, and the source is named."""
    monkeypatch.setattr(fresh_build, "ROOT", farm)
    pytester.makepyfile("def test_passes(): pass")
    fresh = pytester.runpytest_inprocess("-p", "tests.plugins.fresh_build", "-p", "no:randomly")
    fresh.assert_outcomes(passed=1)
    _set_time(farm / "kprod/cow.py", BUILT_S + 1)
    stale = pytester.runpytest_inprocess("-p", "tests.plugins.fresh_build", "-p", "no:randomly")
    assert stale.ret == pytest.ExitCode.USAGE_ERROR
    stale.stdout.no_fnmatch_line("*passed*")
    stale.stderr.fnmatch_lines(["*run make setup*", "*kprod.cow was built before kprod/cow.py*"])


def test_a_copy_beside_an_installed_wheel_is_not_looked_at(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no build."""
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(fresh_build, "ROOT", tmp_path)
    pytester.makepyfile("def test_passes(): pass")
    ended = pytester.runpytest_inprocess("-p", "tests.plugins.fresh_build", "-p", "no:randomly")
    ended.assert_outcomes(passed=1)


def test_an_extension_without_a_source_is_rejected(
    pytester: pytest.Pytester, farm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that was moved away could still be imported by its old name."""
    monkeypatch.setattr(fresh_build, "ROOT", farm)
    moved = farm / compiled_modules(farm)[0].extension.replace("cow", "calf")
    moved.touch()
    pytester.makepyfile("def test_passes(): pass")
    ended = pytester.runpytest_inprocess("-p", "tests.plugins.fresh_build", "-p", "no:randomly")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    ended.stderr.fnmatch_lines([f"*no source any more; run rm kprod/{moved.name}*"])


def test_this_tree_is_looked_at() -> None:
    """No compiled module of the package would be missed."""
    root = fresh_build.ROOT
    names = {module.name for module in compiled_modules(root)}
    built = {path.relative_to(root) for path in (root / "kprod").rglob("*.so")}
    assert {".".join((path.parent / path.name.split(".")[0]).parts) for path in built} == names
