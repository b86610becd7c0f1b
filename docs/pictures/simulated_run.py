"""The picture of a simulated run: a broker appends a batch and never says so.

Every arrow is a frame of the run of that plan, at its instant in virtual time.
"""

from pathlib import Path

from docs.pictures.drawing import Drawing
from tests.sim.picture import as_drawing, pictured
from tests.sim.plan import Plan

PLAN = Path(__file__).parents[2] / "tests" / "sim" / "plans" / "hanging_broker.json"
_BEGAN_MS = 1_000


def draw() -> Drawing:
    """Draw it."""
    plan = Plan.from_json(PLAN.read_text("utf-8"))
    rows, _ = pictured(plan)
    load = [row for row in rows if row.at_ms < _BEGAN_MS + plan.load_ms]
    return as_drawing(load, "A broker hangs: the same batch, sent again, is not written twice")
