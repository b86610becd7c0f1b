"""Planted faults that the simulation must find: the list is sound, and one of them is found here.

`python -m tests.sim mutants` plants them all.
"""

import re
from pathlib import Path

import pytest

from tests.sim.invariants import alone_at, implied_invariants, needed_invariants
from tests.sim.mutants import (
    PATCHES,
    PlantingError,
    first_kill,
    plant,
    simulated_mutants,
    unseen_mutants,
)

FEWEST = 40
SEEDS = 40


def test_the_simulation_is_asked_for_enough_faults() -> None:
    """Each has a patch, and none is taken off the list without notice."""
    names = simulated_mutants()
    assert len(names) >= FEWEST
    assert [name for name in names if not (PATCHES / f"{name}.patch").exists()] == []


def test_each_fault_of_a_departure_is_found_or_says_why_not() -> None:
    """A new one is tried in the simulation before it is called unseen."""
    departures = {path.stem for path in PATCHES.glob("departure_*.patch")}
    assert departures <= {*simulated_mutants(), *unseen_mutants()}
    assert not {*simulated_mutants()} & {*unseen_mutants()}


@pytest.mark.slow
def test_a_planted_fault_is_found() -> None:
    """A fault that most runs show is found by one of the first seeds."""
    patch = PATCHES / "departure_07_gate_stops_the_node.patch"
    assert first_kill(patch, SEEDS).startswith("seed")


@pytest.mark.slow
def test_without_its_invariants_a_planted_fault_lives() -> None:
    """Those that see the run's early end are left out, and so nothing is found."""
    patch = PATCHES / "departure_07_gate_stops_the_node.patch"
    without = [f"--without={each}" for each in ("I12", "Q1", "I8", "Q2", "Q4", "I7", "I1", "R4")]
    assert not first_kill(patch, 2, without)


def test_each_invariant_of_the_page_is_accounted_for() -> None:
    """It has a planted fault, or a reason why none needs it."""
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([CGIQRW]\d+) \|", page, re.MULTILINE)
    needed = needed_invariants()
    assert sorted(listed) == sorted([each.name for each in needed] + [*implied_invariants()])
    assert [each.fault for each in needed if not each.patch.exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["W1", *(pytest.param(other, marks=pytest.mark.long) for other in ("I2", "I8", "W6"))]
)
def test_an_invariant_finds_its_fault_alone(name: str) -> None:
    """So without it the fault would live at that seed; the command tries the others as well."""
    (needed,) = [each for each in needed_invariants() if each.name == name]
    assert alone_at(needed, SEEDS).endswith(f": {name}")


def test_a_patch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    """Nothing is called found that was never planted."""
    patch = tmp_path / "bad.patch"
    patch.write_text(
        "--- a/kprod/errors.py\n+++ b/kprod/errors.py\n@@ -1,1 +1,1 @@\n-not there\n+neither\n"
    )
    with pytest.raises(PlantingError, match=r"bad\.patch does not fit"):
        plant(patch, tmp_path / "tree")
