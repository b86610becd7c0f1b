"""What a user gets: the wheel holds the package and nothing else, the sdist all that builds it."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

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


def _run(program: str, target: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def compiled() -> set[str]:
    """Every compiled module's path, without its suffix."""
    return {str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.glob("kprod/**/*.pyx")}


def test_sdist_holds_what_builds_it(tmp_path: Path, compiled: set[str]) -> None:
    """Sources of compiled modules, their headers and stubs, settings, tests; nothing made."""
    name = _run(_BUILD_SDIST, tmp_path).split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        members = {member.partition("/")[2] for member in archive.getnames()}
    wanted = {f"{stem}{suffix}" for stem in compiled for suffix in (".pyx", ".pyi")}
    wanted |= {str(path.relative_to(ROOT)) for path in ROOT.glob("kprod/**/*.pxd")}
    wanted |= {"pyproject.toml", "LICENSE", "README.md", "kprod/py.typed", "tests/test_package.py"}
    assert wanted - members == set()
    assert [name for name in members if name.endswith((".so", ".pyc", ".c"))] == []


def test_wheel_holds_the_package_alone(tmp_path: Path, compiled: set[str]) -> None:
    """Modules, stubs, headers and the marker of types; no tests, no tools, no `.pyx`."""
    _run(_LIST_WHEEL, tmp_path)
    members = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {f"{stem}.pyi" for stem in compiled} - members == set()
    assert "kprod/py.typed" in members
    others = [
        name
        for name in members
        if not name.startswith(("kprod/", "pyspark_kprod/", "pytest_kprod.py"))
        or not name.endswith((".py", ".pyi", ".pxd", "/py.typed"))
    ]
    assert others == []
