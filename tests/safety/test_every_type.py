"""Extension types are safe by themselves: any call of them ends in a result or an error.

`every_call` makes each type by `__new__` alone, as a subclass without `super().__init__()`, as
kprod does, closed, used up and initialised twice; it calls every method and property with arguments
made from the stub, one of them wrong at a time, and writes wrong values into public attributes.
A process that a signal ended is the failure.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.safety.child import ROOT, run_in_child
from tests.safety.every_call import targets
from tests.safety.surface import declared_types, extension_types, signatures_of

SLICES = 8
SLICE_S = 900.0  # on a machine that is busy with much else
NOT_TO_BE_HAD = {"ColumnPlan", "JsonPlan", "Reader", "Writer", "WatchShard"}
"""Types that live in compiled code alone; they are tried as `__new__` makes them."""


def test_every_declared_type_is_tried() -> None:
    """The names in the sources are those that Python finds, and each one is a target."""
    declared = set(declared_types())
    assert declared == set(extension_types())
    assert declared <= set(targets())
    assert len(declared) > 80


def test_kprod_makes_one_of_each_type() -> None:
    """A new type needs a recipe, unless a producer leads to an object of it."""
    told = run_in_child(
        """
        from tests.safety import recipes
        from tests.safety.surface import extension_types

        for name, kind in extension_types().items():
            try:
                assert isinstance(recipes.made(kind), kind), name
            except LookupError:
                print(kind.__name__)
        """
    )
    assert set(told) == NOT_TO_BE_HAD


def test_signatures_come_from_the_stubs() -> None:
    """Or the arguments would not be those that are meant."""
    signature = signatures_of(extension_types()["kprod._core.memory.chunk_pool.ChunkPool"])[
        "__init__"
    ]
    assert [each.name for each in signature.parameters][:2] == [
        "capacity_bytes",
        "small_chunk_bytes",
    ]
    assert signature.parameters[0].annotation == "int"


@pytest.mark.slow
@pytest.mark.timeout(SLICE_S)
@pytest.mark.parametrize("part", range(SLICES))
def test_no_call_ends_the_process(part: int, tmp_path: Path) -> None:
    """Every target comes to the end of its cases, whose number its last line tells."""
    names = targets()[part::SLICES]
    done = subprocess.run(
        [sys.executable, "-m", "tests.safety.every_call", str(tmp_path), *names],
        check=False,
        capture_output=True,
        cwd=ROOT,
        text=True,
        timeout=SLICE_S,
    )
    assert not done.stdout
    assert done.returncode == 0, done.stderr[-2_000:]
    for name in names:
        *cases, last = (tmp_path / name).read_text("utf-8").splitlines()
        assert last == f"all {len(cases)} cases of {name}"
