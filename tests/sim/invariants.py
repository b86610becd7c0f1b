"""Whether each invariant is needed: a planted fault, and a seed at which it alone finds that fault.

`invariants.toml` names the faults. Without the invariant the fault would live at that seed.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.sim.mutants import LIMIT_S, PATCHES, PlantingError, plant

HERE = Path(__file__).resolve().parent
PLANTED = HERE / "planted"
"""Faults that are planted for one invariant only; the others are in `tests/mutants`."""


class Needed(NamedTuple):
    """Why an invariant is needed.

    Attributes:
        name: Name of the invariant.
        fault: Name of a planted fault that only this invariant finds, at some seeds at least.
    """

    name: str
    fault: str

    @property
    def patch(self) -> Path:
        """The fault."""
        own = PLANTED / f"{self.fault}.patch"
        return own if own.exists() else PATCHES / f"{self.fault}.patch"


def needed_invariants() -> list[Needed]:
    """Return the invariants that a fault needs, with that fault."""
    return [Needed(**row) for row in _table()["needed"]]


def implied_invariants() -> dict[str, str]:
    """Return why each of the other invariants has no fault of its own, by name."""
    return {row["name"]: row["reason"] for row in _table()["implied"]}


def alone_at(needed: Needed, seeds: int) -> str:
    """Plant a fault, and simulate until a seed breaks this invariant and no other.

    Args:
        needed: The invariant, and the fault.
        seeds: How many to try, from 0.

    Returns:
        The last seed that broke anything, and what it broke, as text.

    Raises:
        PlantingError: The patch does not fit, or the copy cannot run.
    """
    with tempfile.TemporaryDirectory(prefix="kprod-sim-") as place:
        target = Path(place, "tree")
        plant(needed.patch, target)
        options = ["--seeds", str(seeds), "--alone", needed.name]
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim", "kills", *options],
            cwd=target,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if done.returncode not in {0, 1} or (done.returncode and "seed" not in done.stdout):
        raise PlantingError(f"{needed.fault}: {done.stderr[-2_000:]}")
    return done.stdout.strip().rpartition("\n")[2]


def run_invariants(names: Sequence[str], seeds: int, processes: int) -> int:
    """Check every row, or those of some invariants, and print a table.

    Args:
        names: Names of invariants; none selects all.
        seeds: How many to try for each.
        processes: Copies at work at once.

    Returns:
        0 if each invariant alone finds its fault at some seed.
    """
    chosen = [each for each in needed_invariants() if not names or each.name in names]
    wrong = []
    with ThreadPoolExecutor(processes) as pool:
        for needed, found in zip(
            chosen, pool.map(partial(_told, seeds=seeds), chosen), strict=True
        ):
            print(f"{needed.name:4} {needed.fault:45} {found or 'not found'}", flush=True)
            if not found.endswith(f": {needed.name}"):
                wrong.append(needed.name)
    print(f"{len(wrong)} of {len(chosen)} never find their fault alone: {', '.join(wrong)}")
    return 1 if wrong else 0


def _told(needed: Needed, seeds: int) -> str:
    try:
        return alone_at(needed, seeds)
    except PlantingError as error:
        return f"error: {error}"


def _table() -> dict[str, list[dict[str, str]]]:
    table: dict[str, list[dict[str, str]]] = tomllib.loads(
        (HERE / "invariants.toml").read_text(encoding="utf-8")
    )
    return table
