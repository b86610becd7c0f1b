"""Some runs with a crew in every run of the tests; `make sim` has more of them."""

from itertools import count, islice

import pytest

from tests.sim.__main__ import verdict_of
from tests.sim.crew_plan import may_have_crew
from tests.sim.faults import FAULTS
from tests.sim.oracle import Finding
from tests.sim.plan import make_plan

CHUNK, CHUNKS = 15, 3


def _findings(skipped: int, runs: int) -> dict[int, list[Finding]]:
    """Return the findings of some plans with a crew, by seed."""
    drawn = (make_plan(seed, list(FAULTS)) for seed in count() if may_have_crew(seed))
    plans = islice((plan for plan in drawn if plan.crew), skipped, skipped + runs)
    return {plan.seed: found for plan in plans if (found := verdict_of(plan).findings)}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CHUNK * CHUNKS, CHUNK))
def test_crews_keep_every_promise(first: int) -> None:
    """A finding has the command that shows it."""
    bad = _findings(first, CHUNK)
    assert not bad, f"python -m tests.sim replay {next(iter(bad))} --trace\n{bad}"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_crews_keep_every_promise() -> None:
    """As above, of later seeds."""
    assert _findings(CHUNK * CHUNKS, 300) == {}
