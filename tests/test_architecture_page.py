"""The page that follows a record names files and functions that exist."""

import re
from pathlib import Path

import pytest

from tests.test_rooms import CORE, LOOKS_DOWN_TO

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
STEPS = re.findall(r"`(kprod/[\w/]+\.pyx?):(\w+)`", PAGE)
ROOMS = re.findall(r"^\| (\(ground floor\)|`\w+`) \|(.*)\|(.*)\|.*\|$", PAGE, re.MULTILINE)


def test_the_page_follows_a_record() -> None:
    """A page without steps would pass everything below."""
    assert len(STEPS) > 15


@pytest.mark.parametrize(("file", "name"), sorted(set(STEPS)))
def test_each_step_is_in_the_code(file: str, name: str) -> None:
    """As a function or a class of that file."""
    text = (ROOT / file).read_text()
    assert re.search(rf"\b(?:def|class|cdef|cpdef)\b[^\n]*\b{name}\b", text)


def _names(cell: str) -> set[str]:
    named = set(re.findall(r"`(\w+)`", cell))
    return named | {""} if "ground floor" in cell else named


def test_each_room_of_the_core_is_in_the_table() -> None:
    """With its modules, and what it may import from."""
    shown = {min(_names(room)): (_names(modules), _names(below)) for room, modules, below in ROOMS}
    assert shown == {
        room: ({path.stem for path in (CORE / room).glob("*.pxd")}, below)
        for room, below in LOOKS_DOWN_TO.items()
    }
