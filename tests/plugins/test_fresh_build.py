"""The look at compiled modules: it sees an edited source, a missing build, and refuses to begin."""

import os
from pathlib import Path

import pytest

from tests.plugins import fresh_build
from tools.built_tree import MISSING, CompiledModule, compiled_modules, stale_modules, staleness

TABLES = """\
[[tool.setuptools.ext-modules]]
name = "farm.cow"
sources = ["farm/cow.py"]
depends = ["farm/cow.pxd", "farm/grass.pxd"]
"""
BUILT_S = 1_000_000


def _set_time(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """Return a tree with one compiled module, up to date."""
    (tmp_path / "pyproject.toml").write_text(TABLES, "utf-8")
    (tmp_path / "farm").mkdir()
    for name in ("cow.py", "cow.pxd", "grass.pxd"):
        (tmp_path / "farm" / name).touch()
        _set_time(tmp_path / "farm" / name, BUILT_S - 1)
    extension = tmp_path / compiled_modules(tmp_path)[0].extension
    extension.touch()
    _set_time(extension, BUILT_S)
    return tmp_path


def test_what_was_built_after_its_sources_is_up_to_date(farm: Path) -> None:
    """Nothing is found where the extension is the newest file."""
    assert stale_modules(farm) == {}


@pytest.mark.parametrize("name", ["farm/cow.py", "farm/cow.pxd", "farm/grass.pxd"])
def test_a_source_that_was_edited_since_is_named(farm: Path, name: str) -> None:
    """The module's own source, its header, and a header that it includes all count."""
    _set_time(farm / name, BUILT_S + 1)
    assert stale_modules(farm) == {"farm.cow": f"was built before {name} was changed"}


def test_a_module_without_an_extension_is_stale(farm: Path) -> None:
    """A `.py` would be imported as it stands, which is not what is shipped."""
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
    _set_time(farm / "farm/cow.py", BUILT_S + 1)
    stale = pytester.runpytest_inprocess("-p", "tests.plugins.fresh_build", "-p", "no:randomly")
    assert stale.ret == pytest.ExitCode.USAGE_ERROR
    stale.stdout.no_fnmatch_line("*passed*")
    stale.stderr.fnmatch_lines(["*run make setup*", "*farm.cow was built before farm/cow.py*"])


def test_this_tree_is_looked_at() -> None:
    """Its tables are read: no compiled module of the package would be missed."""
    root = fresh_build.ROOT
    names = {module.name for module in compiled_modules(root)}
    sources = {path.relative_to(root).with_suffix("") for path in (root / "kprod").rglob("*.pyx")}
    assert sources
    assert {".".join(path.parts) for path in sources} <= names
