"""Each control of SECURITY.md names tests that are there."""

import re

from tests.docs.examples import ROOT

POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (S\d+) [^|]+\| ([^|]+) \|$", POLICY, re.MULTILINE)


def test_named_tests_are_there() -> None:
    """Each row names a test or says that it is open."""
    named = {row: re.findall(r"`(tests/[\w/.]+)`", text) for row, text in ROWS}
    assert len(named) == len(ROWS) >= 20
    assert [row for row, text in ROWS if not named[row] and "open" not in text] == []
    missing = {path for paths in named.values() for path in paths if not (ROOT / path).is_file()}
    assert not missing
