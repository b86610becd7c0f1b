"""Reports a run over many seeds: as text, as JSON, and as figures of the reliability page.

`run --json` stores it, `figures` writes the stored one into the page; a test compares them.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.sim.coverage import missing

STORED = Path(__file__).with_name("last_run.json")
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN = "<!-- figures of the last run: written by `python -m tests.sim figures` -->"
END = "<!-- end of the figures -->"
COUNTERS_FROM = 20_000  # seeds: fewer need not show every rare state
_SHOWN = (
    "acknowledged",
    "POSSIBLY_PERSISTED",
    "NOT_PERSISTED",
    "pipelined",
    "event connected",
    "connection was given up",
    "cut with a request in flight",
    "request of a closed connection arrives",
    "event epoch ended",
    "sequences wrap",
    "event leader changed",
    "freeze",
    "callback sleeps",
    "asked at once",
    "wait for a lock",
)
"""Counters that the page has; the run prints them all."""


@dataclass(frozen=True)
class Report:
    """The results of a run.

    Attributes:
        commit: Commit of the tree.
        base: The first seed.
        seeds: How many.
        processes: At work at once.
        seconds: From begin to end.
        cpu_seconds: CPU time of all processes.
        events: Number of events of the schedulers.
        failed: Seeds with findings.
        counts: How often rare things happened.
        python: Implementation and version.
    """

    commit: str
    base: int
    seeds: int
    processes: int
    seconds: float
    cpu_seconds: float
    events: int
    failed: list[int]
    counts: Mapping[str, int]
    python: str = f"{platform.python_implementation()} {platform.python_version()}"

    @property
    def absent(self) -> list[str]:
        """The events that this number of seeds should contain."""
        return missing(self.counts) if self.seeds >= COUNTERS_FROM else []

    def text(self) -> str:
        """Return all of it, for a terminal."""
        rate = self.seeds / self.seconds
        lines = [
            f"{self.seeds} seeds from {self.base}, {self.events} events",
            f"{self.seconds:.0f} s ({rate:.0f} seeds/s), {self.cpu_seconds:.0f} s of CPU",
            *(f"{number:12,}  {name}" for name, number in sorted(self.counts.items())),
        ]
        if self.absent:
            lines.append(f"never seen: {', '.join(self.absent)}")
        lines.append(f"{len(self.failed)} seeds with findings: {self.failed[:20]}")
        return "\n".join(lines)

    def figures(self) -> str:
        """Return what the page says of it."""
        found = f"findings at the seeds {self.failed}" if self.failed else "no finding"
        never = missing(self.counts)
        unseen = f"never seen were {', '.join(never)}" if never else "each of its states was seen"
        rows = "\n".join(f"| {name} | {self.counts.get(name, 0):,} |" for name in _SHOWN)
        return (
            f"{BEGIN}\n"
            f"{self.seeds:,} seeds from {self.base}, commit {self.commit}, {self.python},"
            f" {self.processes} processes:\n"
            f"{self.seconds:,.0f} seconds, {self.cpu_seconds:,.0f} of CPU; {self.events:,} events;"
            f" {found}; {unseen}.\n\n| what happened | times |\n|---|---|\n{rows}\n{END}"
        )

    def store(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n", encoding="utf-8")

    @classmethod
    def stored(cls, path: Path = STORED) -> "Report":
        """Read what `store` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def write_page() -> None:
    """Put the figures of the stored run into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{Report.stored().figures()}{after}", encoding="utf-8")
