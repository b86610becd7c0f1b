"""A trap of Cython's, kept out of the compiled core."""

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "kprod" / "_core"
# A constant, or two, at either end or in the middle of `a <= b <= c`.
CHAIN = re.compile(r"[\w.()<>\[\]]+ <=? [\w.()\[\]]+ <=? [\w.()\[\]]+")
CONSTANT = re.compile(r"\b[A-Z][A-Z0-9]+_[A-Z0-9_]+\b")


@pytest.mark.parametrize("source", sorted(CORE.glob("*.p[xy][dx]")), ids=lambda path: path.name)
def test_no_enum_in_a_chained_comparison(source: Path) -> None:
    """In `A <= size <= b` with an enum A, Cython casts `size` to the enum, and -1 passes as large."""
    chains = [match.group() for match in CHAIN.finditer(source.read_text())]
    assert [chain for chain in chains if CONSTANT.search(chain)] == []
