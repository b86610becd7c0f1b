"""Where modules are: rooms of the compiled core look only downwards, and a name is used once."""

import re
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "kprod"
CORE = PACKAGE / "_core"
# The rooms that a room of the core may import besides itself; "" is the ground floor.
LOOKS_DOWN_TO: dict[str, set[str]] = {
    "": set(),
    "memory": {""},
    "record": {"", "memory"},
    "wire": {"", "memory"},
    "outcome": {""},
    "timer": set(),
    "socket_io": {"memory"},
    "send": {"", "memory", "record", "outcome"},
    "metrics": {"", "record", "outcome"},
    "arrow": {"", "memory", "record", "outcome", "send"},
    "json": {"", "arrow"},
    "aio": {"", "memory", "outcome", "send"},
}
# The second of each pair is the compiled half of the first.
HALVES = {
    "clock": {"kprod/clock", "kprod/_core/clock"},
    "threads": {"kprod/threads", "kprod/_core/threads"},
}
SOURCES = {".py", ".pyx", ".pxd", ".pyi"}  # and no .pyc
_IMPORT = re.compile(r"^from kprod\._core\.([\w.]+) c?import", re.MULTILINE)


def _room(path: Path) -> str:
    return "" if path.parent == CORE else path.parent.name


def test_rooms_look_downwards() -> None:
    """Every module of the core imports from its own room and from those below it only."""
    found = []
    for path in sorted(CORE.rglob("*.p[xy]*")):
        if path.suffix not in SOURCES:
            continue
        room = _room(path)
        for name in _IMPORT.findall(path.read_text("utf-8")):
            other = name.split(".")[0] if "." in name else ""
            if other not in LOOKS_DOWN_TO[room] | {room}:
                found.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert not found, "\n".join(found)


def test_rooms_have_an_order() -> None:
    """No two rooms look at each other, not even by way of others."""
    left = dict(LOOKS_DOWN_TO)
    while left:
        lowest = {room for room, below in left.items() if not below & left.keys()}
        assert lowest, left
        left = {room: below for room, below in left.items() if room not in lowest}


def test_every_room_is_known() -> None:
    """A new room gets its row above."""
    rooms = {_room(path) for path in CORE.rglob("*.pxd")}
    assert rooms == LOOKS_DOWN_TO.keys()


def test_a_name_belongs_to_one_module() -> None:
    """No basename is used for two nouns."""
    modules = defaultdict(set)
    for path in PACKAGE.rglob("*.p[xy]*"):
        if path.suffix in {".py", ".pyx", ".pxd"} and not path.stem.startswith("__"):
            modules[path.stem].add(f"kprod/{path.relative_to(PACKAGE).with_suffix('')}")
    twice = {name: where for name, where in modules.items() if len(where) > 1}
    assert twice == HALVES
