"""A trap of Cython's, kept out of the compiled core."""

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "kprod" / "_core"
SOURCES = sorted(CORE.rglob("*.p[xy][dx]"))
TERM = r"[\w.()<>\[\]+*/-]+(?: [+*/-] [\w.()\[\]]+)*"
CHAIN = re.compile(rf"{TERM} <=? {TERM} <=? {TERM}")
NAMED_ENUM = re.compile(r"^cp?def enum \w+:\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)
MEMBER = re.compile(r"^    ([A-Z]\w+)", re.MULTILINE)


def _members(source: str) -> set[str]:
    return {name for body in NAMED_ENUM.findall(source) for name in MEMBER.findall(body)}


MEMBERS = set().union(*(_members(path.read_text(encoding="utf-8")) for path in SOURCES))


@pytest.mark.checkout
def test_members_are_found() -> None:
    """The search below knows the wire numbers."""
    assert {"BATCH_OVERHEAD_BYTES", "LOG_OVERHEAD_BYTES", "CODEC_MASK", "FAULT_NONE"} <= MEMBERS
    assert CHAIN.search("if not BATCH_OVERHEAD_BYTES <= size <= held.len:") is not None


@pytest.mark.checkout
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_enum_in_a_chained_comparison(source: Path) -> None:
    """In `A <= size <= b` with A of a named enum, Cython casts `size` to it, and -1 is large."""
    chains = [match.group() for match in CHAIN.finditer(source.read_text(encoding="utf-8"))]
    assert [chain for chain in chains if MEMBERS & set(re.findall(r"\w+", chain))] == []
