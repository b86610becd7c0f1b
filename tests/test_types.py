"""Types of an installed kprod for type checkers: complete, and twenty mistakes are found."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PROGRAMS = ROOT / "tests" / "typing"
KNOWN_MIN = 0.98
PUBLIC = ("kprod", "kprod.broker", "kprod.errors", "kprod.interfaces")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("types")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment that has kprod's modules and stubs as a wheel installs them.

    A type checker takes a package for installed only below `site-packages`, where the one under
    test is not.

    Returns:
        Path of the file.
    """
    home = tmp_path_factory.mktemp("environment")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=60
    )
    (site,) = home.glob("lib/python*/site-packages")
    shutil.copytree(
        ROOT / "kprod", site / "kprod", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    )
    (own,) = (BIN.parent).glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{own}\n", encoding="utf-8")
    return home


def _run(home: Path, *words: str | Path) -> str:
    """Run a checker's command in an environment; return what it prints, whatever it finds."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=home,
        env={**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stdout, done.stderr[-2_000:]
    return done.stdout


def _told(name: str, finding: dict[str, Any]) -> str:
    """Say where an unknown type is, as pyright does of other findings."""
    line = finding["range"]["start"]["line"] + 1 if "range" in finding else "?"
    file = finding.get("file", "").partition("site-packages/")[2]
    return f"{file}:{line}: {name}: {finding['message']}"


@pytest.mark.parametrize("module", PUBLIC)
def test_nearly_every_type_is_known(installed: Path, module: str) -> None:
    """`pyright --verifytypes`, over the module and whatever its public names lead to."""
    text = _run(
        installed, BIN / "pyright", "--verifytypes", module, "--ignoreexternal", "--outputjson"
    )
    found = json.loads(text)["typeCompleteness"]
    assert found["pyTypedPath"].startswith(str(installed))
    assert sum(found["exportedSymbolCounts"].values()) > 10
    if found["completenessScore"] < KNOWN_MIN:
        told = [
            _told(symbol["name"], symbol["diagnostics"][0])
            for symbol in found["symbols"]
            if symbol["isExported"] and symbol["diagnostics"]
        ]
        # Whatever uses a class with one unknown attribute is unknown, too: these come first.
        told.sort(key=lambda text: "missing type annotation" not in text)
        pytest.fail(f"{found['completenessScore']:.1%} known; annotate\n" + "\n".join(told[:30]))


@dataclass(frozen=True)
class Mistake:
    """One line of a program that is wrong.

    Attributes:
        line: Its number.
        says: Part of what a checker says of it.
        missed_by: Checkers that do not find it, with the reason.
    """

    line: int
    says: str
    missed_by: dict[str, str]


_MARK = re.compile(
    r"# wrong(?:: (?P<says>\w+))?(?:; (?P<checker>mypy|pyright) misses it: (?P<reason>.+))?$"
)


def _mistakes(program: Path) -> Iterator[Mistake]:
    for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1):
        if (mark := _MARK.search(line)) is not None:
            missed = {mark["checker"]: mark["reason"]} if mark["checker"] else {}
            yield Mistake(number, mark["says"] or "", missed)


def _found_by_mypy(home: Path, program: Path) -> dict[int, str]:
    """Lines with an error and its text, by mypy's strict rules, as an application's own."""
    config = home / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n", encoding="utf-8")
    text = _run(
        home,
        BIN / "mypy",
        *("--config-file", config, "--python-executable", home / "bin" / "python"),
        *("--cache-dir", home / "cache", program),
    )
    found = re.findall(rf"{program.name}:(\d+): error: (.*)", text)
    return {int(line): said for line, said in found}


def _found_by_pyright(home: Path, program: Path) -> dict[int, str]:
    (home / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    text = _run(home, BIN / "pyright", "--outputjson", program)
    return {
        finding["range"]["start"]["line"] + 1: finding["message"]
        for finding in json.loads(text)["generalDiagnostics"]
        if finding["severity"] == "error"
    }


CHECKERS = {"mypy": _found_by_mypy, "pyright": _found_by_pyright}


@pytest.mark.parametrize("checker", CHECKERS)
def test_twenty_mistakes_are_found(installed: Path, checker: str) -> None:
    """Each by both checkers, or its line says which one misses it and why; and no other line.

    A name of another client is answered by kprod's.
    """
    program = Path(shutil.copy(PROGRAMS / "mistakes.py", installed))
    mistakes = list(_mistakes(program))
    assert len(mistakes) >= 20

    found = CHECKERS[checker](installed, program)

    assert found.keys() == {it.line for it in mistakes if checker not in it.missed_by}
    assert [it for it in mistakes if it.says not in found.get(it.line, it.says)] == []


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_right_program_has_no_error(installed: Path, checker: str) -> None:
    """Everything that the mistakes are mistakes of, written as it should be."""
    program = Path(shutil.copy(PROGRAMS / "right.py", installed))
    assert CHECKERS[checker](installed, program) == {}
