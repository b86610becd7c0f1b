"""Less upkeep for PySpark's processes: finders of archives, and collections of garbage."""

import importlib
import subprocess
import sys
import zipfile
import zipimport
from collections.abc import Generator
from pathlib import Path

import pytest

from kprod.spark.process_upkeep import forget_package_finders, lighten_upkeep

READS_AT_ONCE = sys.version_info < (3, 13)
NAME = "kprod_upkeep_example"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Make an archive with packages, from which one module of each was imported.

    Yields:
        Its path.
    """
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as file:
        for package in (NAME, f"{NAME}/one", f"{NAME}/two"):
            file.writestr(f"{package}/__init__.py", "")
            file.writestr(f"{package}/module.py", "")
            file.writestr(f"{package}/later.py", "")
    monkeypatch.syspath_prepend(str(path))
    for package in (NAME, f"{NAME}.one", f"{NAME}.two"):
        importlib.import_module(f"{package}.module")
    yield path
    for name in [name for name in sys.modules if name.startswith(NAME)]:
        del sys.modules[name]
    for finder in [key for key in sys.path_importer_cache if key.startswith(str(path))]:
        del sys.path_importer_cache[finder]


def finders_of(archive: Path) -> list[str]:
    """Paths in the archive that have a finder."""
    return [path for path in sys.path_importer_cache if path.startswith(str(archive))]


@pytest.mark.skipif(not READS_AT_ONCE, reason="finders of Python 3.13 read when they must")
def test_an_archive_is_read_once_for_all_its_packages(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the finder of its top level remains."""
    read: list[str] = []
    original = zipimport._read_directory  # type: ignore[attr-defined]

    def note(path: str) -> object:
        read.append(path)
        return original(path)

    monkeypatch.setattr(zipimport, "_read_directory", note)
    importlib.invalidate_caches()
    assert read.count(str(archive)) == 4
    read.clear()
    forget_package_finders()
    assert finders_of(archive) == [str(archive)]
    importlib.invalidate_caches()
    assert read.count(str(archive)) == 1


def test_imports_go_on(archive: Path) -> None:
    """Of modules that were there, and of those that an archive has got since."""
    forget_package_finders()
    importlib.import_module(f"{NAME}.one.later")
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(f"{NAME}/two/new.py", "answer = 42")
    importlib.invalidate_caches()
    assert importlib.import_module(f"{NAME}.two.new").answer == 42


def test_other_finders_remain(archive: Path) -> None:
    """Those of directories, which know what has changed by themselves."""
    others = set(sys.path_importer_cache) - set(finders_of(archive))
    forget_package_finders()
    assert others <= set(sys.path_importer_cache)


def test_other_processes_are_left_alone(archive: Path) -> None:
    """This one is not PySpark's: its objects and finders are its own business."""
    before = finders_of(archive)
    lighten_upkeep()
    assert finders_of(archive) == before


PROGRAM = """
import gc, sys, types
import kprod.spark.process_upkeep as upkeep
sys.modules["pyspark.daemon"] = types.ModuleType("pyspark.daemon")
assert gc.get_freeze_count() == 0
upkeep.lighten_upkeep()
count = gc.get_freeze_count()
assert count > 1_000, count
later = [[] for _ in range(1_000)]
upkeep.lighten_upkeep()
assert gc.get_freeze_count() <= count, "frozen twice"
assert len(gc.get_objects()) >= 1_000
"""


def test_objects_are_exempt_from_collections_once() -> None:
    """Those of the first time; later ones are collected as ever."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=False, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
