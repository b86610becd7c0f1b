"""Run mutants side by side, continue where an interrupted run stopped, and print a table.

Each worker is a thread with a copy of the tree of its own; the work is done in child processes. The
main thread waits for results, shows how far it is, and is the one that Ctrl-C reaches.

Thread-safety: `main` runs in the main thread.
"""

import argparse
import contextlib
import datetime as dt
import os
import shutil
import statistics
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kprod.clock import SystemClock
from tests.mutants.commands import Commands
from tests.mutants.kept import KeptResults, Mutant
from tests.mutants.planting import FOUND
from tests.mutants.workers import HERE, ROOT, Result, Workers
from tools.built_tree import stale_modules

KEPT_IN = ROOT / "build" / "mutants"
LIMIT_S = 900.0
LOOK_S = 1.0  # between two redrawings of the line
FILE_COLUMNS = 150
EXIT_MISSED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def chosen(mutants: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    """Choose mutants by name.

    Args:
        mutants: All there are.
        names: None of them chooses all.

    Returns:
        The chosen ones, in the order of the table.

    Raises:
        ValueError: There is none of some name; with the names that there are.
    """
    known = [mutant["name"] for mutant in mutants]
    if unknown := sorted(set(names) - set(known)):
        text = f"no such mutant: {', '.join(unknown)}; there are {', '.join(known)}"
        raise ValueError(text)
    return [mutant for mutant in mutants if not names or mutant["name"] in names]


def longest_first(mutants: Iterable[Mutant], kept: KeptResults) -> list[Mutant]:
    """Order mutants so that no worker begins a long one when the others are done.

    Args:
        mutants: To be run.
        kept: Knows how long each took last time.

    Returns:
        The mutants of unknown duration first, then the longest first.
    """
    lengths = {mutant["name"]: kept.seconds(mutant["name"]) for mutant in mutants}
    return sorted(mutants, key=lambda mutant: -(lengths[mutant["name"]] or float("inf")))


def seconds_left(
    waiting: Iterable[str], kept: KeptResults, taken: Sequence[float], jobs: int
) -> float | None:
    """Estimate how long the rest takes.

    Args:
        waiting: Names of the mutants that have no result yet.
        kept: Knows how long each took last time.
        taken: Durations of the mutants that ran in this run.
        jobs: Workers, at least 1.

    Returns:
        Seconds; None while nothing is known at all.
    """
    earlier = {name: kept.seconds(name) for name in waiting}
    known = [each for each in earlier.values() if each is not None]
    if not known and not taken:
        return 0.0 if not earlier else None
    usual = statistics.mean(taken) if taken else statistics.mean(known)
    return sum(usual if each is None else each for each in earlier.values()) / jobs


class ProgressLine:
    """Says how far it is: a line rewritten on a terminal, a line for each result elsewhere.

    Args:
        console: Console for the output.
        count: Number of results to expect.
    """

    def __init__(self, console: Console, count: int) -> None:
        self._console, self._count = console, count
        self._clock = SystemClock()
        self._began_ms = self._clock.now_ms()

    def show(self, done: int, left_s: float | None) -> None:
        """Rewrite the line; nothing where there is no terminal."""
        if self._console.is_terminal:
            self._console.print(f"\r\x1b[K{self._text(done, left_s)}", end="", highlight=False)

    def result(self, result: Result, done: int, left_s: float | None) -> None:
        """Say what became of one mutant."""
        if self._console.is_terminal:
            self._console.print("\r\x1b[K", end="")
        seconds = "" if result.seconds is None else f"{result.seconds:5.0f} s"
        line = f"{result.outcome:22} {seconds:8} {result.name:44}"
        rest = "" if self._console.is_terminal else f" {self._text(done, left_s)}"
        self._console.print(f"{line}{rest}", highlight=False, markup=False)

    def _text(self, done: int, left_s: float | None) -> str:
        since = _clock_time((self._clock.now_ms() - self._began_ms) / 1_000)
        left = "" if left_s is None else f", about {_clock_time(left_s)} left"
        return f"{done} of {self._count} after {since}{left}"


def _clock_time(seconds: float) -> str:
    return str(dt.timedelta(seconds=round(seconds)))


def run_all(
    mutants: Sequence[Mutant], kept: KeptResults, given: argparse.Namespace, console: Console
) -> list[Result]:
    """Run mutants, and collect what became of them.

    Args:
        mutants: At least one.
        kept: Earlier results, and where new ones go.
        given: Options of the command line.
        console: For progress.

    Returns:
        A result for each; fewer after Ctrl-C, which ends all commands.
    """
    fresh = [mutant for mutant in mutants if given.fresh or not _is_kept(mutant, kept)]
    started = {mutant["name"] for mutant in fresh}
    results = [Result(each["name"], FOUND) for each in mutants if each["name"] not in started]
    with _place() as place:
        workers = Workers(kept, Commands(given.limit), place, KEPT_IN)
        try:
            workers.start(longest_first(fresh, kept), given.jobs)
            results.extend(_results(workers, fresh, kept, given.jobs, console))
        except KeyboardInterrupt:
            console.print("\ninterrupted; the next run continues from here", highlight=False)
        finally:
            workers.stop()
    return results


def _results(
    workers: Workers, mutants: Sequence[Mutant], kept: KeptResults, jobs: int, console: Console
) -> Iterator[Result]:
    waiting = {mutant["name"] for mutant in mutants}
    line = ProgressLine(console, len(mutants))
    taken_s: list[float] = []
    while waiting:
        line.show(len(taken_s), seconds_left(waiting, kept, taken_s, jobs))
        result = workers.next_result(LOOK_S)
        if result is not None:
            yield result
            waiting.remove(result.name)
            taken_s.append(result.seconds or 0.0)
            line.result(result, len(taken_s), seconds_left(waiting, kept, taken_s, jobs))


def _is_kept(mutant: Mutant, kept: KeptResults) -> bool:
    digest = kept.digest(mutant, HERE / f"{mutant['name']}.patch")
    return kept.is_found(mutant["name"], digest)


@contextlib.contextmanager
def _place() -> Generator[Path]:
    place = Path(tempfile.mkdtemp(prefix="kprod-mutants-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def table_of(mutants: Sequence[Mutant], results: Iterable[Result]) -> Table:
    """Draw what became of all.

    Args:
        mutants: The chosen mutants.
        results: Results of all or some of them.

    Returns:
        A table, in the order of the mutants.
    """
    by_name = {result.name: result for result in results}
    table = Table(box=SIMPLE_HEAD)
    for heading in ("mutant", "outcome", "s", "what it breaks"):
        table.add_column(heading, justify="right" if heading == "s" else "left")
    for mutant in mutants:
        result = by_name.get(mutant["name"], Result(mutant["name"], "not run"))
        seconds = "kept" if result.seconds is None else f"{result.seconds:.0f}"
        if mutant["name"] not in by_name:
            seconds = ""
        table.add_row(mutant["name"], result.outcome, seconds, mutant["breaks"])
    return table


def exit_code(mutants: Sequence[Mutant], results: Sequence[Result]) -> int:
    """Judge a run.

    Args:
        mutants: The chosen mutants.
        results: Results of all or some of them.

    Returns:
        0 if each was found, 1 if one was not, 130 if only some were run.
    """
    if any(result.outcome != FOUND for result in results):
        return EXIT_MISSED
    return EXIT_INTERRUPTED if len(results) < len(mutants) else 0


def main(arguments: Sequence[str]) -> int:
    """Run the named mutants, or all; print a table.

    Args:
        arguments: Arguments of the command line.

    Returns:
        The exit code.
    """
    given = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else FILE_COLUMNS)
    table = tomllib.loads((HERE / "mutants.toml").read_text("utf-8"))["mutant"]
    try:
        mutants = chosen(table, given.names)
    except ValueError as error:
        console.print(str(error), highlight=False, markup=False)
        return EXIT_USAGE
    if stale := stale_modules(ROOT):
        # Each copy would build the same again, for every fault.
        module, reason = next(iter(stale.items()))
        console.print(f"{module} {reason}; run make setup first", highlight=False, markup=False)
        return EXIT_USAGE
    results = run_all(mutants, KeptResults(KEPT_IN, ROOT), given, console)
    console.print(table_of(mutants, results))
    missed = [result.name for result in results if result.outcome != FOUND]
    if missed:
        console.print(f"not found: {', '.join(missed)}; what they wrote is in {KEPT_IN}/*.log")
    return exit_code(mutants, results)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python tests/mutants/run.py",
        description="Plant faults in copies of the tree, and see that the tests find each.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help="which; by default all")
    parser.add_argument(
        "--jobs", type=_at_least_one, default=os.cpu_count() or 1, help="at once; as many as cores"
    )
    parser.add_argument("--fresh", action="store_true", help="use no result of earlier runs")
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT_S,
        metavar="SECONDS",
        help=f"of each build and each test run, {LIMIT_S:g} by default",
    )
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
