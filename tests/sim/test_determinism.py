"""A run is a function of its plan: other hash seeds, orders and builds give the same digest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.faults import FAULTS
from tests.sim.mutants import copy_interpreted
from tests.sim.plan import make_plan
from tests.sim.world import simulate

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(40, 48)
TIMEOUT_S = 100
PROGRAM = f"""
from tests.sim.faults import FAULTS
from tests.sim.plan import make_plan
from tests.sim.world import simulate
for seed in range({SEEDS.start}, {SEEDS.stop}):
    print(simulate(make_plan(seed, list(FAULTS))).digest)
"""


def _digests_in_child(directory: Path, hash_seed: int = 0) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        cwd=directory,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return [int(word) for word in done.stdout.split()]


@pytest.fixture(scope="module")
def digests() -> list[int]:
    """Return what this process finds, in order."""
    return [simulate(make_plan(seed, list(FAULTS))).digest for seed in SEEDS]


@pytest.mark.slow
def test_another_order_gives_the_same_runs(digests: list[int]) -> None:
    """No run leaves anything behind for the next."""
    backwards = [simulate(make_plan(seed, list(FAULTS))).digest for seed in reversed(SEEDS)]
    assert backwards[::-1] == digests
    assert len(set(digests)) == len(SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hash_seed", [3, *(pytest.param(other, marks=pytest.mark.long) for other in (0, 1, 2))]
)
def test_no_order_depends_on_hashes(digests: list[int], hash_seed: int) -> None:
    """Neither hashes of texts nor addresses of objects decide anything."""
    assert _digests_in_child(ROOT, hash_seed) == digests


@pytest.mark.slow
def test_compiled_and_interpreted_code_do_the_same(digests: list[int], tmp_path: Path) -> None:
    """The modules that have Python source run from it in the copy."""
    copy_interpreted(tmp_path)
    assert _digests_in_child(tmp_path) == digests
