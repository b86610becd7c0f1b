"""Plant faults in copies of the tree, and see which seed finds each.

A fault is planted if its row in `tests/mutants/mutants.toml` says `sim = true`; `unseen` says why a
fault of a departure's is not. A patch of Python modules is planted in a copy where every `.py` runs
as it is; a patch of compiled code in a copy of the built tree, where what it makes out of date is
built.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.mutants.planting import copy_tree
from tools.built_tree import build, compiled_modules, stale_modules

ROOT = Path(__file__).resolve().parent.parent.parent
PATCHES = ROOT / "tests" / "mutants"
LIMIT_S = 1_800
_FILE = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)
_TESTS = ("tests/sim", "tests/oracle", "tests/checker")
_CRASH_DISK = "tests/broker/log/crash_disk.py"


class PlantingError(RuntimeError):
    """A fault could not be planted, or the copy with it cannot run."""


def simulated_mutants() -> list[str]:
    """Return the names of the planted faults that the simulation must find."""
    rows = tomllib.loads((PATCHES / "mutants.toml").read_text("utf-8"))["mutant"]
    return [row["name"] for row in rows if row.get("sim")]


def unseen_mutants() -> dict[str, str]:
    """Return why the simulation does not find other faults of the producer's, by name."""
    rows = tomllib.loads((PATCHES / "mutants.toml").read_text("utf-8"))["mutant"]
    return {row["name"]: row["unseen"] for row in rows if "unseen" in row}


def needs_compiler(patch: Path) -> bool:
    """Return whether a patch changes anything but Python modules of the package."""
    files = _FILE.findall(patch.read_text(encoding="utf-8"))
    return not all(name.endswith(".py") and name.startswith("kprod/") for name in files)


def copy_interpreted(target: Path) -> None:
    """Copy the package and the simulation; no module that has Python source is compiled there."""
    extensions = {
        path.name
        for module in compiled_modules(ROOT)
        if module.inputs[0].endswith(".py")
        for path in (ROOT / module.inputs[0]).parent.glob(f"{Path(module.inputs[0]).stem}.*.so")
    }

    def left_out(_: str, names: list[str]) -> set[str]:
        return {name for name in names if name.endswith((".c", ".pyc")) or name in extensions}

    shutil.copytree(ROOT / "kprod", target / "kprod", ignore=left_out)
    for name in _TESTS:
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, target / name)
    (target / _CRASH_DISK).parent.mkdir(parents=True)
    shutil.copy2(ROOT / _CRASH_DISK, target / _CRASH_DISK)


def plant(patch: Path, target: Path) -> None:
    """Make a copy with a fault.

    Args:
        patch: The fault.
        target: Does not exist.

    Raises:
        PlantingError: The patch does not fit, or what it changes does not build.
    """
    compiles = needs_compiler(patch)
    if compiles:
        copy_tree(ROOT, target)
    else:
        target.mkdir()
        copy_interpreted(target)
    applied = subprocess.run(
        ["patch", "-p1", "--silent", "-i", patch],
        cwd=target,
        capture_output=True,
        text=True,
        check=False,
    )
    if applied.returncode:
        raise PlantingError(f"{patch.name} does not fit: {applied.stdout}")
    if compiles and stale_modules(target):
        try:
            build(target)
        except RuntimeError as error:
            raise PlantingError(f"{patch.name}: {error}") from error


def first_kill(patch: Path, seeds: int, options: Sequence[str] = ()) -> str:
    """Plant one patch and simulate until a seed finds it.

    Args:
        patch: To plant.
        seeds: How many to try, from 0.
        options: More of `tests.sim first`.

    Returns:
        Seed and invariant as text; empty if no seed found it.

    Raises:
        PlantingError: The patch does not fit, or the copy cannot run.
    """
    with tempfile.TemporaryDirectory(prefix="kprod-sim-") as place:
        target = Path(place, "tree")
        plant(patch, target)
        command = [sys.executable, "-m", "tests.sim", "first", "--seeds", str(seeds), *options]
        try:
            done = subprocess.run(
                command, cwd=target, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise PlantingError(f"{patch.stem}: no end after {LIMIT_S} s") from error
        if done.returncode not in {0, 1} or (done.returncode and "seed" not in done.stdout):
            raise PlantingError(f"{patch.stem}: {done.stderr[-2_000:]}")
        return done.stdout.strip()


def run_mutants(
    names: Sequence[str], seeds: int, options: Sequence[str] = (), processes: int = 1
) -> int:
    """Plant faults and print a table.

    Args:
        names: Names of patches; none selects those that `mutants.toml` marks with `sim = true`.
        seeds: How many to try for each.
        options: More of `tests.sim first`.
        processes: Copies at work at once.

    Returns:
        0 if each was found.
    """
    chosen = list(names) or simulated_mutants()
    missed = []
    with ThreadPoolExecutor(processes) as pool:
        for name, found in zip(
            chosen, pool.map(partial(_told, seeds=seeds, options=options), chosen), strict=True
        ):
            print(f"{name:45} {found or 'not found'}", flush=True)
            if not found.startswith("seed"):
                missed.append(name)
    print(f"{len(missed)} of {len(chosen)} not found below seed {seeds}: {', '.join(missed)}")
    return 1 if missed else 0


def _told(name: str, seeds: int, options: Sequence[str]) -> str:
    try:
        return first_kill(PATCHES / f"{name}.patch", seeds, options)
    except PlantingError as error:
        return f"error: {error}"
