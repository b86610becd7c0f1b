"""A run as text: a line for each thing that happened, with its virtual time."""

from tests.sim.plan import Plan
from tests.sim.world import Verdict, World

_SHOWN_BYTES = 24


class TracedWorld(World):
    """A world that writes a line for everything that it notes."""

    lines: list[str]

    def __init__(self, plan: Plan) -> None:
        self.lines = []
        super().__init__(plan)

    def note(self, kind: bytes, data: bytes) -> None:
        """Write a line, too."""
        now_ms = self.scheduler.now_ns / 1e6
        name = kind.decode()
        is_wire = name.startswith(("wrote", "read")) and name[-1].isdigit()
        shown = f"{len(data)} bytes {data[:_SHOWN_BYTES].hex()}" if is_wire else data.decode()
        self.lines.append(f"{now_ms:12.3f}  {name:10}  {shown}")
        super().note(kind, data)


def traced(plan: Plan, partition: str | None) -> tuple[Verdict, list[str]]:
    """Run a plan.

    Args:
        plan: To run.
        partition: Only lines that name it, and those of faults and connections; None: all.

    Returns:
        The verdict, and the lines.
    """
    world = TracedWorld(plan)
    verdict = world.run()
    topic = (partition or "").rpartition("-")[0]
    lines = [line for line in world.lines if not topic or topic in line or "told" not in line]
    return verdict, lines
