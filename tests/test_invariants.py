"""`docs/invariants.md` names tests that exist, and at least one for each promise and departure."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.producer.application_code import ACTIONS, PLACES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "invariants.md"

NOT_BUILT = {"P9"}
"""Rows that come with a later subject."""

NEVER_CALLED = {"`__hash__` and `__eq__` of a topic"}
"""Code of the application that kprod could run, and does not."""

VERBS = ("raise", "block", "send", "flush", "close", "fork", "drop_the_last_reference")

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def _rows(page: str) -> dict[str, list[tuple[str, str]]]:
    """Each row's tests, as (file, name), by the text of its first column."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in {"#", "---", "place"}:
            assert cells[0] not in rows, f"{cells[0]} is there twice"
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
    """P1 to P10 and 1 to 22, except those that are not built."""
    rows = set(_rows(PAGE.read_text("utf-8")))
    wanted = {f"P{number}" for number in range(1, 11)} | {str(number) for number in range(1, 23)}
    assert wanted - NOT_BUILT <= rows
    assert not rows & NOT_BUILT


def _places(page: str) -> dict[str, dict[str, str]]:
    """The table of application code: promises by place and by column."""
    lines = page[page.index("## Application code everywhere") :].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    head = table[0]
    end = next(at for at, cells in enumerate(table) if cells[0] == "#")
    return {cells[0]: dict(zip(head, cells, strict=True)) for cells in table[2:end]}


def test_every_place_of_application_code_has_a_promise_and_a_test_for_each_action() -> None:
    """The table names the places and the actions of the matrix, no more and no fewer."""
    places = _places(PAGE.read_text("utf-8"))
    assert places.keys() - NEVER_CALLED == PLACES.keys()
    assert places.keys() >= NEVER_CALLED
    actions = {"raises", *ACTIONS} - {"raises an Exception"}
    for name, cells in places.items():
        assert cells.keys() == {"place", "thread", *actions, "held by"}
        assert all(cells.values()), name
        if name in NEVER_CALLED:
            assert {cells[action] for action in actions} == {"never called"}
            continue
        tests = {test for _, test in _TEST.findall(cells["held by"])}
        assert tests >= {f"test_it_may_{verb}" for verb in VERBS}, name
        assert (cells["thread"] == "sender") == PLACES[name].is_sender


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
