"""`docs/invariants.md` names tests that exist, and at least one for each promise and departure."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "invariants.md"

NOT_BUILT = {"P9"}
"""Rows that come with a later subject."""

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def _rows(page: str) -> dict[str, list[tuple[str, str]]]:
    """Each row's tests, as (file, name), by what stands in its first column."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in {"#", "---"}:
            assert cells[0] not in rows, f"{cells[0]} stands there twice"
            rows[cells[0]] = _TEST.findall(cells[-1])
    return rows


@functools.cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _faults(page: str) -> list[str]:
    found = []
    for row, tests in _rows(page).items():
        if not tests:
            found.append(f"{row}: no test")
        for file, name in tests:
            path = ROOT / file
            if not path.is_file() or name not in _functions(path):
                found.append(f"{row}: {file}::{name} is gone")
    return found


def test_every_row_has_tests_that_exist() -> None:
    """No row without one, no name of a test that is gone."""
    assert _faults(PAGE.read_text("utf-8")) == []


def test_every_promise_and_departure_has_a_row() -> None:
    """P1 to P10 and 1 to 22, but for what is not built."""
    rows = set(_rows(PAGE.read_text("utf-8")))
    wanted = {f"P{number}" for number in range(1, 11)} | {str(number) for number in range(1, 23)}
    assert wanted - NOT_BUILT <= rows
    assert not rows & NOT_BUILT


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| P1 | promise | none |", "P1: no test"),
        ("| P1 | promise | `tests/test_invariants.py::test_gone` |", "test_gone is gone"),
        ("| P1 | promise | `tests/test_gone.py::test_x` |", "test_x is gone"),
    ],
)
def test_a_row_that_holds_nothing_is_found(row: str, fault: str) -> None:
    """The check itself sees each kind of fault."""
    (found,) = _faults(row)
    assert fault in found
