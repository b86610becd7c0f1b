"""The contents of wheel and sdist: the package alone, and everything that builds it."""

import importlib.machinery
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.wheel_limits import INSTALLED_BYTES_MAX, ZIPPED_BYTES_MAX

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = importlib.machinery.EXTENSION_SUFFIXES[0]
# One worker: both write the package's list of files.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]

_BUILD_SDIST = """
import sys, warnings
warnings.simplefilter("ignore")
from setuptools import build_meta
print(build_meta.build_sdist(sys.argv[1]))
"""

_LIST_WHEEL = """
import sys, warnings
warnings.simplefilter("ignore")
from setuptools import setup
from setuptools.dist import Distribution
distribution = setup(script_args=["--quiet", "build_py", "--build-lib", sys.argv[1]])
"""


def _run(program: str, target: Path, *, tree: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(target)],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def _in_git(*options: str) -> set[str]:
    """Return the files of a checkout that git keeps, but for its own and the CI's."""
    if not (ROOT / ".git").exists():
        assert (ROOT / "PKG-INFO").exists(), "this is neither a checkout nor an sdist"
        return set()
    done = subprocess.run(
        ["git", "ls-files", "-z", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    names = {name for name in done.stdout.split("\0") if name and not name.startswith(".")}
    return {name for name in names if (ROOT / name).is_file()}


def _copied_tree(target: Path) -> Path:
    """Copy the checkout, since a build of an sdist lays its files out in the tree that it packs.

    Tests that read every file of the tree, at work at the same time, would read those as well.

    Returns:
        The copy.
    """
    names = _in_git("--cached", "--others", "--exclude-standard")
    for name in names or [it.relative_to(ROOT) for it in ROOT.rglob("*") if it.is_file()]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    return target


@pytest.fixture(scope="module")
def compiled() -> set[str]:
    """Every compiled module's path, without its suffix."""
    return {str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.glob("kprod/**/*.pyx")}


def test_sdist_holds_what_builds_it(tmp_path: Path, compiled: set[str]) -> None:
    """Sources of compiled modules, their headers and stubs, all that is tracked; nothing made."""
    tree = _copied_tree(tmp_path / "tree")
    name = _run(_BUILD_SDIST, tmp_path, tree=tree).split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        members = {member.partition("/")[2] for member in archive.getnames()}
    wanted = {f"{stem}{suffix}" for stem in compiled for suffix in (".pyx", ".pyi")}
    wanted |= {str(path.relative_to(ROOT)) for path in ROOT.glob("kprod/**/*.pxd")}
    wanted |= {"pyproject.toml", "LICENSE", "README.md", "kprod/py.typed", "tests/test_package.py"}
    assert wanted - members == set()
    assert [name for name in members if name.endswith((".so", ".pyc", ".c"))] == []
    assert _in_git() - members == set()


def test_what_a_wheel_packs_is_small(tmp_path: Path, compiled: set[str]) -> None:
    """Debug symbols would be four fifths of a wheel, and once were. `make wheel` checks its own."""
    extensions = [*ROOT.glob(f"kprod/**/*{EXTENSION}")]
    assert len(extensions) >= len(compiled)
    texts = [path for pattern in ("*.py", "*.pyi") for path in ROOT.glob(f"kprod/**/{pattern}")]
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for path in (*extensions, *texts):
            zipped.write(path, path.relative_to(ROOT))
        installed = sum(member.file_size for member in zipped.infolist())
    assert installed <= INSTALLED_BYTES_MAX
    assert archive.stat().st_size <= ZIPPED_BYTES_MAX


def test_wheel_holds_the_package_alone(tmp_path: Path, compiled: set[str]) -> None:
    """Modules, stubs and the marker of types; no tests, no tools, no `.pyx`, no `.pxd`."""
    _run(_LIST_WHEEL, tmp_path)
    members = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {f"{stem}.pyi" for stem in compiled} - members == set()
    assert "kprod/py.typed" in members
    others = [
        name
        for name in members
        if not name.startswith(("kprod/", "pyspark_kprod/", "pytest_kprod.py"))
        or not name.endswith((".py", ".pyi", "/py.typed"))
    ]
    assert others == []
