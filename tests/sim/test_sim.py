"""Some runs of the simulation in every run of the tests, and all plans that once failed."""

from pathlib import Path

import pytest

from tests.sim.__main__ import verdict_of
from tests.sim.faults import FAULTS
from tests.sim.oracle import Finding
from tests.sim.picture import as_drawing, as_text, pictured
from tests.sim.plan import Plan, make_plan

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
CHUNK = 10
SEEDS = 60  # `make sim` runs 20,000


def _findings(seed: int) -> list[Finding]:
    return verdict_of(make_plan(seed, list(FAULTS))).findings


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds_hold_every_invariant(first: int) -> None:
    """A finding has the command that shows it."""
    found = {seed: _findings(seed) for seed in range(first, first + CHUNK)}
    bad = {seed: findings for seed, findings in found.items() if findings}
    assert not bad, f"python -m tests.sim replay {next(iter(bad))} --trace\n{bad}"


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_plans_that_once_failed_pass(path: Path) -> None:
    """Each was made small, and has the name of the planted fault that it finds, or of a bug."""
    assert verdict_of(Plan.from_json(path.read_text(encoding="utf-8"))).findings == []


def test_a_plan_is_data() -> None:
    """A plan that is stored and read again is the same plan, and runs alike."""
    plan = make_plan(7, list(FAULTS))
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert verdict_of(again).digest == verdict_of(plan).digest


def test_a_picture_shows_repeated_requests() -> None:
    """The frames of one batch, in columns and as a drawing."""
    path = Path(__file__).parent / "plans" / "hanging_broker.json"
    rows, findings = pictured(Plan.from_json(path.read_text(encoding="utf-8")))
    assert findings == []
    batch = "[0] e0 s1 (1)"
    assert [row.kind for row in rows if batch in row.text] == ["request", "request"]
    assert as_text(rows).count(batch) == 2
    assert "no_response" in as_drawing(rows, "a title").svg()


def test_a_run_without_faults_only_succeeds() -> None:
    """Every record that was accepted and not taken back is acknowledged."""
    plan = make_plan(11, [])
    sends = [entry for entry in plan.operations if entry["kind"] == "send"]
    plan.operations = [{**entry, "habit": "", "partition": -1} for entry in sends]
    plan.producers = [{"enable_idempotence": True} for _ in plan.producers]
    verdict = verdict_of(plan)
    assert verdict.findings == []
    assert verdict.counts["failed"] == 0
    assert verdict.counts["acknowledged"] > 0
