"""The page that follows a record names files and functions that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STEPS = re.findall(r"`(kprod/[\w/]+\.pyx?):(\w+)`", (ROOT / "docs" / "architecture.md").read_text())


def test_the_page_follows_a_record() -> None:
    """A page without steps would pass everything below."""
    assert len(STEPS) > 15


@pytest.mark.parametrize(("file", "name"), sorted(set(STEPS)))
def test_each_step_is_in_the_code(file: str, name: str) -> None:
    """As a function or a class of that file."""
    text = (ROOT / file).read_text()
    assert re.search(rf"\b(?:def|class|cdef|cpdef)\b[^\n]*\b{name}\b", text)
