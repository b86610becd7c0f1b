"""Runs benchmarks: fair rounds, ratios, a table, JSON and a plot.

Why ratios. Machines are noisy and shared, so a figure alone says little. Contestants are run in
turn (A B A B …), each round is compared with the baseline of the same round, and the median of
those ratios is what a benchmark claims.

A benchmark is a function of one `Report`:

    def benchmark(report: Report) -> None:
        report.compare([Contestant("kprod", rate(prepare_kprod)), Contestant("oracle", …)],
                       metric=Metric("encode", "records/s"), baseline="oracle")

    if __name__ == "__main__":
        main("Encoding", benchmark)

It calls `compare` once per question, or per point of a curve (`at=1000`), and `add` for figures
that it took itself. `main` gives every benchmark `--quick`, `--json`, `--plot` and `--rounds`.

Invariants.
    A row's `value` is the median of its samples, its `ratio` that of the ratios round by round.
    Nothing of this file runs while a contestant is measured: no thread, no drawing.

Thread-safety: one thread, the caller's.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from report_values import Metric, Row, readable, row_of, summed_row
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kprod.perf.machine import facts_line, machine_facts

QUICK_BUDGET_S = 20.0
"""After this long `--quick` starts no further round, so that the whole stays below 30 s."""

QUICK_ROUNDS = 3
FILE_COLUMNS = 110
"""Width of a table that does not go to a terminal: enough for every name."""

T = TypeVar("T")
Figures = float | Mapping[str, float]
"""The result of one round of one contestant: a number, or one for each metric's name."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One side of a comparison.

    Attributes:
        name: Its series in table and plot.
        measure: Runs one round and gives its figures; see `measure`.
        rounds: Most rounds that it takes part in, where it is slow; None takes part in all.
        baseline: Whom to take its ratios to, instead of the baseline of all.
    """

    name: str
    measure: Callable[[], Figures]
    rounds: int | None = None
    baseline: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command line.

    Attributes:
        quick: At most 30 s in all: fewer rounds; the benchmark takes smaller sizes by `pick`.
        rounds: Overrides what the benchmark asks for.
        extra: The benchmark's own arguments.
    """

    quick: bool = False
    rounds: int | None = None
    extra: argparse.Namespace = field(default_factory=argparse.Namespace)


class Report:
    """Runs comparisons and collects their rows.

    Attributes:
        fault: Ends the program with this text once everything is written; empty for none.

    Thread-safety: one thread.
    """

    def __init__(self, title: str, options: Options, console: Console | None = None) -> None:
        """Start an empty report."""
        self.title = title
        self.options = options
        self.console = console or Console(width=None if sys.stdout.isatty() else FILE_COLUMNS)
        self.rows: list[Row] = []
        self.metrics: dict[str, Metric] = {}
        self.fault = ""
        self._started_s = time.perf_counter()

    def pick(self, full: T, quick: T) -> T:
        """Choose between the size for a whole and the size for a quick run.

        Args:
            full: Taken without `--quick`.
            quick: Taken with it.

        Returns:
            One of them.
        """
        return quick if self.options.quick else full

    def compare(
        self,
        contestants: Sequence[Contestant],
        *,
        metric: Metric | Sequence[Metric],
        baseline: str | None = None,
        rounds: int = 5,
        at: float | None = None,
    ) -> list[Row]:
        """Run contestants in alternating rounds and add a row for each of them and each metric.

        Args:
            contestants: At least one, in the order in which they take their turns.
            metric: Meaning of a plain figure, or the names of the figures in a mapping.
            baseline: The contestant to take ratios to.
            rounds: At least 1; `--rounds` overrides it and `--quick` lowers it.
            at: The point, when this is one of a curve.

        Returns:
            The rows that were added.
        """
        metrics = [metric] if isinstance(metric, Metric) else list(metric)
        rounds = self.options.rounds or min(rounds, self.pick(rounds, QUICK_ROUNDS))
        samples = {(c.name, m.name): list[float]() for c in contestants for m in metrics}
        where = "" if at is None else f" at {at:,g}"
        with self.progress(rounds * len(contestants)) as advance:
            for done, contestant in itertools.product(range(rounds), contestants):
                if done and contestant is contestants[0] and self._over_budget():
                    break
                if contestant.rounds is not None and done >= contestant.rounds:
                    continue
                advance(f"{contestant.name}{where}, round {done + 1} of {rounds}")
                for name, figure in _by_metric(contestant.measure(), metrics).items():
                    samples[contestant.name, name].append(figure)
        rows = []
        for each in metrics:
            for contestant in contestants:
                name, other = contestant.name, contestant.baseline or baseline
                against = None if other is None else (other, samples[other, each.name])
                row = row_of(each, name, samples[name, each.name], baseline=against, at=at)
                rows.append(self._keep(each, row))
        return rows

    def add(
        self,
        metric: Metric,
        series: str,
        samples: Sequence[float],
        *,
        baseline: str | None = None,
        at: float | None = None,
    ) -> Row:
        """Add a row of samples that the benchmark took itself.

        Args:
            metric: The measured quantity.
            series: The contestant's name.
            samples: At least one.
            baseline: A series that was added before, with the same metric, point and sample count.
            at: The point, when this is one of a curve.

        Returns:
            The row that was added.
        """
        against = None
        if baseline is not None:
            key = (baseline, metric.name, at)
            against = next(r for r in self.rows if (r.series, r.metric, r.at) == key)
        pair = (against.series, against.samples) if against else None
        return self._keep(metric, row_of(metric, series, samples, baseline=pair, at=at))

    def merge(self, path: Path) -> None:
        """Add the rounds of another run of this benchmark, as `write_json` wrote them.

        Args:
            path: The file.
        """
        content = json.loads(path.read_text("utf-8"))
        metrics = {each["name"]: Metric(**each) for each in content["metrics"]}
        for found in content["rows"]:
            key = (found["series"], found["metric"], found["at"])
            here = next((r for r in self.rows if (r.series, r.metric, r.at) == key), None)
            metric = metrics[found["metric"]]
            row = summed_row(
                metric,
                found["series"],
                [*(here.samples if here else ()), *found["samples"]],
                ratios=[*(here.ratios if here else ()), *found["ratios"]],
                baseline=found["baseline"],
                at=found["at"],
            )
            if here is not None:
                self.rows.remove(here)
            self._keep(metric, row)

    @contextmanager
    def progress(self, steps: int) -> Generator[Callable[[str], None]]:
        """Show a bar while steps are taken.

        Args:
            steps: Number of steps to expect.

        Yields:
            A function to call before each step, with the step's name.
        """
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        # Drawn between the steps only: a refreshing thread would run beside the measured code.
        bar = Progress(
            *columns,
            TimeElapsedColumn(),
            console=self.console,
            auto_refresh=False,
            transient=True,
            disable=not self.console.is_terminal,
        )
        with bar:
            task = bar.add_task(self.title, total=steps)
            begun = 0

            def advance(description: str) -> None:
                nonlocal begun
                bar.update(task, description=description, completed=begun, refresh=True)
                begun += 1

            yield advance

    def print(self) -> None:
        """Print the machine's facts and one table per metric."""
        self.console.print(self.title, style="bold")
        self.console.print(facts_line(machine_facts()), style="dim", highlight=False)
        for metric in self.metrics.values():
            self.console.print(self._table(metric))

    def _table(self, metric: Metric) -> Table:
        rows = [row for row in self.rows if row.metric == metric.name]
        table = Table(title=f"{metric.name}, {metric.unit}", title_justify="left", box=SIMPLE_HEAD)
        is_curve = any(row.at is not None for row in rows)
        for heading in [metric.against] * is_curve + ["median", "spread", "n", "ratio", "ratios"]:
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for row in rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f} ×"
            ratios = f"{min(row.ratios):.2f}–{max(row.ratios):.2f}" if len(row.ratios) > 1 else ""
            cells = [readable(row.value), f"{row.spread:.0%}", str(row.n), ratio, ratios]
            at = [] if row.at is None else [f"{row.at:,g}"]
            table.add_row(*at, *cells, row.series)
        return table

    def write_json(self, path: Path) -> None:
        """Write the machine's facts and all rows."""
        content: dict[str, Any] = {
            "title": self.title,
            "quick": self.options.quick,
            "machine": machine_facts(),
            "metrics": [asdict(metric) for metric in self.metrics.values()],
            "rows": [asdict(row) for row in self.rows],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _keep(self, metric: Metric, row: Row) -> Row:
        self.metrics[metric.name] = metric
        self.rows.append(row)
        return row

    def _over_budget(self) -> bool:
        return self.options.quick and time.perf_counter() - self._started_s > QUICK_BUDGET_S


def _by_metric(figures: Figures, metrics: Sequence[Metric]) -> Mapping[str, float]:
    if isinstance(figures, Mapping):
        return {metric.name: figures[metric.name] for metric in metrics}
    (only,) = metrics  # a plain number says nothing about several metrics
    return {only.name: figures}


def main(
    title: str,
    benchmark: Callable[[Report], None],
    *,
    arguments: Callable[[argparse.ArgumentParser], object] | None = None,
    plot: Callable[[Report, Path], None] | None = None,
) -> None:
    """Run a benchmark from the command line.

    Args:
        title: Title of the table and the plot.
        benchmark: Fills the report.
        arguments: Adds the benchmark's own options, found again in `report.options.extra`.
        plot: Draws the report into a file; None draws a panel for each metric.

    Raises:
        SystemExit: The benchmark has set `fault`.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--quick", action="store_true", help="at most 30 s in all")
    parser.add_argument("--rounds", type=int, help="rounds of each comparison")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them (png, svg or pdf)")
    if arguments is not None:
        arguments(parser)
    given = parser.parse_args()
    report = Report(title, Options(quick=given.quick, rounds=given.rounds, extra=given))
    benchmark(report)
    report.print()
    if given.json:
        report.write_json(given.json)
    if given.plot:
        (plot or _plot_panels)(report, given.plot)
    if report.fault:
        raise SystemExit(report.fault)


def _plot_panels(report: Report, path: Path) -> None:
    from report_plot import draw  # noqa: PLC0415 - matplotlib takes a second to import

    draw(report.title, list(report.metrics.values()), report.rows, path)
