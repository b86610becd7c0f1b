"""Plant the landed faults in a copy of the tree, and see which seed finds each.

Only patches of Python modules are planted: in the copy every `.py` runs as it is, so nothing has to
be compiled. What a patch of compiled code breaks is for the tests that `tests/mutants` names.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.built_tree import compiled_modules

ROOT = Path(__file__).resolve().parent.parent.parent
PATCHES = ROOT / "tests" / "mutants"
LIMIT_S = 1_200
_FILE = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)


def plantable(names: Sequence[str]) -> Iterator[Path]:
    """Return the patches that need no compiler, or those named."""
    for patch in sorted(PATCHES.glob("*.patch")):
        files = _FILE.findall(patch.read_text(encoding="utf-8"))
        if names and patch.stem not in names:
            continue
        if all(name.endswith(".py") and name.startswith("kprod/") for name in files):
            yield patch


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
    for name in ("tests/sim", "tests/oracle", "tests/checker"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, target / name)


def first_kill(patch: Path, seeds: int) -> str:
    """Plant one patch and simulate until a seed finds it.

    Args:
        patch: To plant.
        seeds: How many to try, from 0.

    Returns:
        Seed and invariant as text; empty if no seed found it.

    Raises:
        RuntimeError: The patch does not fit, or the program failed.
    """
    with tempfile.TemporaryDirectory() as place:
        target = Path(place)
        copy_interpreted(target)
        applied = subprocess.run(
            ["patch", "-p1", "--silent", "-i", patch],
            cwd=target,
            capture_output=True,
            text=True,
            check=False,
        )
        if applied.returncode:
            raise RuntimeError(f"{patch.name} does not fit: {applied.stdout}")
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim", "first", "--seeds", str(seeds)],
            cwd=target,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode not in {0, 1}:
            raise RuntimeError(f"{patch.stem}: {done.stderr[-2_000:]}")
        return done.stdout.strip()


def run_mutants(names: Sequence[str], seeds: int) -> int:
    """Plant patches one after another and print a table; 0 if each named one was found."""
    missed = []
    for patch in plantable(names):
        found = first_kill(patch, seeds)
        print(f"{patch.stem:45} {found or 'not found'}", flush=True)
        if not found:
            missed.append(patch.stem)
    print(f"{len(missed)} not found below seed {seeds}: {', '.join(missed)}")
    return 1 if names and missed else 0
