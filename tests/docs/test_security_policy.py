"""Each control of SECURITY.md names tests that are there."""

import ast
import re
from pathlib import Path

from tests.docs.examples import ROOT

POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (S\d+) [^|]+\| ([^|]+) \|$", POLICY, re.MULTILINE))
NAMED = re.compile(r"`(tests/[\w/.]+)::(\w+)`")


def test_every_control_has_its_tests() -> None:
    """S1 to S27, in order; each names at least one test, and no file without a test."""
    assert list(ROWS) == [f"S{number}" for number in range(1, 28)]
    assert [row for row, text in ROWS.items() if not NAMED.search(text)] == []
    assert [row for row, text in ROWS.items() if "`" in NAMED.sub("", text)] == []


def test_named_tests_are_there() -> None:
    """Each is a function of the file."""
    named = {pair for text in ROWS.values() for pair in NAMED.findall(text)}
    assert [pair for pair in sorted(named) if pair[1] not in functions_of(ROOT / pair[0])] == []


def functions_of(path: Path) -> set[str]:
    """Names of the functions of a file; none if it is not there."""
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
