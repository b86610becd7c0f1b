"""The parts of a release: changelog, workflow, and a reproducible wheel."""

import importlib.machinery
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from kprod.version import __version__
from tools import test_wheel
from tools.bill_of_materials import bill_of_materials

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
WORKFLOW = ROOT / ".github" / "workflows" / "wheels.yml"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTENSION = importlib.machinery.EXTENSION_SUFFIXES[0]
REPOSITORY = "https://example.org/kprod"

_PACK = """
import runpy, sys, warnings
warnings.simplefilter("ignore")
sys.argv[1:] = ["-q", "build_py", "bdist_wheel", "--skip-build", "--dist-dir", sys.argv[1]]
runpy.run_path("setup.py", run_name="__main__")
"""


def _said(*words: str | Path) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]
    return done.stdout


def _packed(place: Path) -> Path:
    """Pack the modules that are compiled already into a wheel, and return it."""
    tree = place / "tree"
    shutil.copytree(ROOT / "kprod", tree / "kprod", ignore=shutil.ignore_patterns("*.so", "*.c"))
    shutil.copytree(ROOT / "tools", tree / "tools")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pytest_kprod.py"):
        shutil.copy2(ROOT / name, tree)
    shutil.copytree(ROOT / "pyspark_kprod", tree / "pyspark_kprod")
    for path in ROOT.glob(f"kprod/**/*{EXTENSION}"):
        target = place / "lib" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    config = place / "build.cfg"
    config.write_text(f"[build]\nbuild_lib={place / 'lib'}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _PACK, str(place / "dist")],
        cwd=tree,
        env={
            "DIST_EXTRA_CONFIG": str(config),
            "SOURCE_DATE_EPOCH": "1767225600",
            "KPROD_REPOSITORY": REPOSITORY,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    (wheel,) = (place / "dist").glob("*.whl")
    return wheel


@pytest.mark.slow
def test_a_wheel_packed_twice_is_the_same(tmp_path: Path) -> None:
    """Elsewhere and later; `make wheel` also compiles twice. And its contents are checked."""
    first, second = _packed(tmp_path / "first"), _packed(tmp_path / "second")
    assert first.read_bytes() == second.read_bytes()
    _said(BIN / "twine", "check", "--strict", first)
    with zipfile.ZipFile(first) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(f"kprod-{__version__}.dist-info/METADATA").decode()
        bill = wheel.read(f"kprod-{__version__}.dist-info/sboms/kprod.cdx.json").decode()
    assert bill == bill_of_materials(ROOT, __version__)
    assert f"Project-URL: Source, {REPOSITORY}\n" in metadata
    assert f"Project-URL: Changelog, {REPOSITORY}/blob/main/CHANGELOG.md\n" in metadata
    extras = set(re.findall(r"^Provides-Extra: (.+)$", metadata, re.MULTILINE))
    assert extras == set(SETTINGS["project"]["optional-dependencies"])
    tops = {name.split("/")[0] for name in names}
    assert tops == {
        "kprod",
        "pyspark_kprod",
        "pytest_kprod.py",
        f"kprod-{__version__}.dist-info",
    }
    assert [name for name in names if name.endswith((".c", ".pyx"))] == []


def test_the_bill_is_valid_and_names_its_parts() -> None:
    """By CycloneDX's own schema; kprod's version and the compiler's, as the build pins it."""
    text = bill_of_materials(ROOT, "1.2.3")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/kprod@1.2.3"
    (support,) = bill["components"]
    assert f"{support['name']}=={support['version']}" in SETTINGS["build-system"]["requires"]


def test_the_changelog_takes_every_fragment() -> None:
    """Towncrier finds each file of docs/changes, and shows no number of an issue."""
    text = _said(BIN / "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "today")
    fragments = list((ROOT / "docs" / "changes").glob("*.md"))
    assert len(re.findall(r"^\* ", text, re.MULTILINE)) == len(fragments) > 50
    assert "## 9.9.9 (today)" in text
    shown = " ".join(text.split())
    for path in fragments:
        assert " ".join(path.read_text(encoding="utf-8").split()) in shown, path.name
    assert not re.search(r"\(#\S+\)", text)


def test_the_workflow_is_safe() -> None:
    """Zizmor's strictest persona finds nothing."""
    _said(BIN / "zizmor", "--offline", "--no-progress", "--persona", "pedantic", WORKFLOW)


def test_the_workflow_pins_and_grants_little() -> None:
    """Every action by a commit with its version; permissions are named, and writes are two."""
    text = WORKFLOW.read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)(.*)", text)
    assert len(used) >= 9
    assert [
        it for it in used if not re.search(r"@[0-9a-f]{40}$", it[0]) or " # v" not in it[1]
    ] == []
    assert re.findall(r"([a-z-]+): write", text) == ["id-token", "attestations"]
    assert "\npermissions: {}\n" in text
    assert "secrets." not in text


def test_every_wheel_is_tested_before_any_is_published() -> None:
    """By the tests of an installed wheel; and the lowest versions by `make lowest`."""
    text = WORKFLOW.read_text(encoding="utf-8")
    assert re.findall(r"needs: (\[.+\])", text) == ["[sdist, wheels, lowest]"]
    assert "run: make lowest\n" in text
    assert "CIBW_TEST" not in text  # no row leaves its tests out
    wheels = SETTINGS["tool"]["cibuildwheel"]
    assert wheels["test-command"] == "python -m tools.test_wheel"
    assert "test-skip" not in wheels
    assert set(wheels["test-extras"]) < set(SETTINGS["project"]["optional-dependencies"])


def test_the_tests_of_a_wheel_are_found(capfd: pytest.CaptureFixture[str]) -> None:
    """They are run by a release alone, and modules are renamed between two releases."""
    subprocess.run([sys.executable, "-c", test_wheel.LOCATE], check=True, timeout=60)
    package, compiled = capfd.readouterr().out.split()
    assert Path(package).parent in Path(compiled).parents
    assert compiled.endswith(EXTENSION)
    assert [name for name in test_wheel.TESTS if not (ROOT / "tests" / name).exists()] == []


def test_the_platforms_are_on_their_page() -> None:
    """Each row of the workflow's matrix, and each Python that wheels are built for."""
    page = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    text = WORKFLOW.read_text(encoding="utf-8")
    rows = re.findall(r"name: ((?:manylinux|musllinux|macOS) [\w-]+)", text)
    assert len(rows) == 6
    assert [row for row in rows if f"| {row} |" not in page] == []
    built = re.findall(r"cp3(\d+)-\*", " ".join(SETTINGS["tool"]["cibuildwheel"]["build"]))
    assert built == re.findall(r"cp3(\d+)\$", text)
    classified = re.findall(
        r":: 3\.(\d+)$", "\n".join(SETTINGS["project"]["classifiers"]), re.MULTILINE
    )
    assert built == classified
    assert [minor for minor in built if f"3.{minor}" not in page] == []
