"""Old against new: this tree's kprod, an older one and confluent-kafka in turn, pair by pair.

A pair is one run of each of the three, each in a process of its own, against the same mock cluster
of librdkafka, which lives as long as the pair. Each pair has copies of the trees, since where a
file lies in memory makes more of a difference than most changes. Pairs continue; the order within a
pair is drawn by a seed. Each pair gives one ratio of new to old for each case, and the median of
these ratios is shown with its exact interval (`ratio_interval.py`).

    python benchmarks/old_and_new.py                         the last commit against this tree
    python benchmarks/old_and_new.py --old v1.0 --pairs 20
    python benchmarks/old_and_new.py --old DIR --new DIR     trees that are built already
    python benchmarks/old_and_new.py --cases lone append --quick

    futures     `send` without a callback; each future is looked at before it is dropped
    callbacks   `send(on_delivery=…)`
    lone        one record, `result()`, the next one; linger 0
    partitions  one record to each of 10,000 partitions in turn; linger 500 ms, memory of 1 GiB
    append      `send` alone, the sender replaced by a drain that discards; by CPU time

Every run but `append` counts only if the topic's end offset equals the records sent. The exit code
is 1 when the whole interval of a case's rate lies below 0.97, and 2 when a run fails. With fewer
than six pairs there is no interval of 95 %, and nothing is judged.

Thread-safety: one thread, the caller's.
"""

import argparse
import contextlib
import datetime as dt
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import race_brokers
from measure import child_figures
from old_and_new_cases import APPEND, CASES, LONE, PARTITION_COUNT, PARTITIONS
from race_brokers import RaceBroker
from ratio_interval import CONFIDENCE, SLOWER_BELOW, Comparison, compared, orders
from report import FILE_COLUMNS
from report_values import readable
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from source_trees import ROOT, NoTree, copied, source_tree

from kprod.perf.machine import facts_line, machine_facts

TITLE = "kprod old and new, and confluent-kafka, in turn on librdkafka's mock cluster"
OLD, NEW, PEER = "old", "new", "confluent-kafka"
SIDES = (OLD, NEW, PEER)
PAIRS, PAIRS_QUICK = 10, 2
SECONDS, SECONDS_QUICK = 3.0, 0.3
START_S = 60.0  # a run's process may take so long beside its seconds
SEED = 19
RATE, CPU, P50 = "records/s", "CPU us a record", "p50 us"
EXIT_SLOWER, EXIT_FAILED, EXIT_INTERRUPTED = 1, 2, 130

Figures = Mapping[str, float]


@dataclass(slots=True)
class Plan:
    """The parameters of a comparison.

    Attributes:
        trees: Source trees of the sides that have one.
        cases: Some of `CASES`.
        pairs: At least 1.
        seconds: Duration of each run, above 0.
        seed: Draws the orders.
    """

    trees: Mapping[str, Path]
    cases: Sequence[str]
    pairs: int
    seconds: float
    seed: int


@dataclass(slots=True)
class Result:
    """All figures: by case and name, for each side one a pair.

    Attributes:
        samples: By case, name of the figure and side, in the order of the pairs.
    """

    samples: dict[tuple[str, str], dict[str, list[float]]] = field(default_factory=dict)

    def add(self, case: str, figures: Mapping[str, Figures]) -> None:
        """Add one pair's figures of one case.

        Args:
            case: One of `CASES`.
            figures: By side, for each side of the pair.
        """
        for side, of_side in figures.items():
            for name, value in of_side.items():
                self.samples.setdefault((case, name), {}).setdefault(side, []).append(value)

    def rows(self) -> "Iterator[Row]":
        """Sum up each figure of each case.

        Yields:
            A row for each.
        """
        for (case, name), by_side in self.samples.items():
            new = by_side[NEW]
            yield Row(
                case, name, by_side, compared(new, by_side[OLD]), compared(new, by_side[PEER])
            )


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one case.

    Attributes:
        case: One of `CASES`.
        name: `RATE`, `CPU` or `P50`.
        samples: By side.
        to_old: Ratios of new to old.
        to_peer: Ratios of new to confluent-kafka.
    """

    case: str
    name: str
    samples: Mapping[str, Sequence[float]]
    to_old: Comparison
    to_peer: Comparison

    @property
    def verdict(self) -> str:
        """The verdict of the interval about a rate; empty for the other figures."""
        if self.name != RATE:
            return ""
        if self.to_old.interval is None:
            return "too few pairs"
        return "SLOWER" if self.to_old.is_slower else "ok"


def slower_cases(rows: Sequence[Row]) -> list[str]:
    """Find what fails: cases whose rate is lower, beyond doubt.

    Args:
        rows: Results of all cases.

    Returns:
        The cases' names.
    """
    return [row.case for row in rows if row.name == RATE and row.to_old.is_slower]


def figures_of(case: str, run: Figures) -> Figures:
    """Work out a run's figures by name.

    Args:
        case: One of `CASES`.
        run: Figures that the run's process printed.

    Returns:
        `RATE`, `CPU` where it is not the rate's reciprocal, and `P50` of single records.
    """
    figures = {RATE: run["count"] / run["elapsed_s"]}
    if case != APPEND:
        figures[CPU] = run["cpu_s"] * 1e6 / run["count"]
    if case == LONE:
        figures[P50] = run["p50_us"]
    return figures


def run_pairs(plan: Plan, console: Console) -> Result:
    """Run all pairs, and show how far it is.

    Args:
        plan: The pairs and cases to run.
        console: Console for the progress line; after Ctrl-C the complete pairs remain.

    Returns:
        The figures of every case of every whole pair.
    """
    result = Result()
    progress = _Progress(console, plan.pairs * len(plan.cases) * len(SIDES))
    try:
        for number, order in enumerate(orders(SIDES, plan.pairs, plan.seed), start=1):
            _run_pair(plan, order, result, partial(progress.step, number))
    except KeyboardInterrupt:
        console.print("interrupted: these are the pairs that are whole")
    finally:
        progress.end()
    return result


def _run_pair(
    plan: Plan, order: Sequence[str], result: Result, step: Callable[[str], object]
) -> None:
    found: dict[str, dict[str, Figures]] = {}
    with contextlib.ExitStack() as stack:
        trees = {side: stack.enter_context(copied(tree)) for side, tree in plan.trees.items()}
        placed = replace(plan, trees=trees)
        broker = stack.enter_context(race_brokers.running("mock"))
        for case, side in itertools.product(plan.cases, order):
            step(f"{case}, {side}")
            figures = figures_of(case, _run(placed, case, side, broker))
            found.setdefault(case, {})[side] = figures
    for case, by_side in found.items():
        result.add(case, by_side)


class _Progress:
    """One line, rewritten before each run: no thread draws beside the measured run."""

    def __init__(self, console: Console, steps: int) -> None:
        self._console, self._steps, self._done = console, steps, 0
        self._began_s = time.perf_counter()

    def step(self, pair: int, text: str) -> None:
        """Name the next run, and how long all the rest will take."""
        line = f"{self._done} of {self._steps} runs; pair {pair}, {text}"
        if self._done:
            each_s = (time.perf_counter() - self._began_s) / self._done
            left_s = round(each_s * (self._steps - self._done))
            line += f"; {dt.timedelta(seconds=left_s)} left"
        self._done += 1
        if self._console.is_terminal:
            self._console.print(f"\r\x1b[K{line}", end="", highlight=False)

    def end(self) -> None:
        """Remove the progress line."""
        if self._console.is_terminal:
            self._console.print("\r\x1b[K", end="")


def _run(plan: Plan, case: str, side: str, broker: RaceBroker) -> Figures:
    command = [
        str(ROOT / "benchmarks" / "old_and_new_cases.py"),
        *("--case", case, "--seconds", str(plan.seconds)),
        *(("--side", "peer") if side == PEER else ("--side", "kprod")),
    ]
    if side != PEER:
        command += ["--tree", str(plan.trees[side])]
    timeout_s = START_S + plan.seconds * 10
    if case == APPEND:
        return child_figures(command, timeout_s=timeout_s)
    partitions = PARTITION_COUNT if case == PARTITIONS else 1
    with broker.topic(f"{case} {side}", partitions) as topic:
        command += ["--broker", broker.address, "--topic", topic]
        figures = child_figures(command, timeout_s=timeout_s)
        end_offset = broker.end_offset(topic, partitions)
    if end_offset != round(figures["offset"]):
        raise RuntimeError(
            f"{case}, {side}: {figures['offset']:,.0f} sent, the broker has {end_offset:,}"
        )
    return figures


def table_of(rows: Sequence[Row]) -> Table:
    """Draw the result.

    Args:
        rows: Results of all cases.

    Returns:
        A table for a console.
    """
    table = Table(box=SIMPLE_HEAD)
    for heading in ("case", "", *SIDES, "new / old", f"new / {PEER}", ""):
        left = heading in {"case", ""}
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        medians = [readable(statistics.median(row.samples[side])) for side in SIDES]
        table.add_row(row.case, row.name, *medians, str(row.to_old), str(row.to_peer), row.verdict)
    return table


def as_json(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """Collect what a later reader needs.

    Args:
        plan: The runs.
        rows: Their results.

    Returns:
        A JSON object.
    """
    return {
        "title": TITLE,
        "trees": {side: str(tree) for side, tree in plan.trees.items()},
        "seconds": plan.seconds,
        "seed": plan.seed,
        "confidence": CONFIDENCE,
        "slower_below": SLOWER_BELOW,
        "machine": machine_facts(),
        "rows": [{**asdict(row), "verdict": row.verdict} for row in rows],
    }


def _plan(given: argparse.Namespace) -> Plan:
    return Plan(
        trees={OLD: source_tree(given.old), NEW: source_tree(given.new)},
        cases=given.cases,
        pairs=given.pairs or (PAIRS_QUICK if given.quick else PAIRS),
        seconds=given.seconds or (SECONDS_QUICK if given.quick else SECONDS),
        seed=given.seed,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument(
        "--old",
        metavar="REF|DIR",
        default="HEAD",
        help="a commit, checked out and built under build/old, or a built tree; by default HEAD",
    )
    parser.add_argument(
        "--new", metavar="REF|DIR", default=str(ROOT), help="the same; by default this tree"
    )
    parser.add_argument("--pairs", type=_positive(int), help=f"by default {PAIRS}")
    parser.add_argument(
        "--seconds", type=_positive(float), help=f"of a run, {SECONDS:g} by default"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--seed", type=int, default=SEED, help="draws the order within each pair")
    parser.add_argument("--quick", action="store_true", help="a glance; judges nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and ratios")
    return parser


def _positive(kind: type[int] | type[float]) -> Any:  # noqa: ANN401 - what argparse takes
    def positive(text: str) -> float:
        number = kind(text)
        if not 0 < number < float("inf"):
            raise ValueError(text)
        return number

    return positive


def main(arguments: Sequence[str]) -> int:
    """Compare, print, and judge.

    Args:
        arguments: Arguments of the command line.

    Returns:
        The exit code.
    """
    given = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else FILE_COLUMNS + 40)
    try:
        plan = _plan(given)
        result = run_pairs(plan, console)
    except (NoTree, RuntimeError, subprocess.TimeoutExpired) as error:
        console.print(str(error), highlight=False, markup=False)
        return EXIT_FAILED
    rows = list(result.rows())
    if not rows:
        return EXIT_INTERRUPTED
    whole = len(rows[0].to_old.ratios)
    console.print(TITLE, style="bold")
    console.print(
        f"{whole} pairs, {plan.seconds:g} s a run, seed {plan.seed}; medians of the ratios of each"
        f" pair, with the order-statistic interval of at least {CONFIDENCE:.0%}",
        highlight=False,
    )
    console.print(facts_line(machine_facts()), style="dim", highlight=False)
    console.print(table_of(rows))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(as_json(plan, rows), indent=2) + "\n", "utf-8")
    slower = slower_cases(rows)
    if slower:
        console.print(f"slower, the whole interval below {SLOWER_BELOW}: {', '.join(slower)}")
    return EXIT_SLOWER if slower else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
