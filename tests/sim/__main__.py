"""Simulate: `python -m tests.sim run --seeds 20000`, `replay SEED`.

`run` simulates seeds on several processes and shows how far it is; a seed with a finding is run
again, and a second digest that differs is a finding of its own. The exit code is 1 if there was any
finding. `replay` runs one seed or one stored plan, and prints what happened.
"""

import argparse
import gc
import math
import multiprocessing
import resource
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tests.sim.faults import FAULTS
from tests.sim.oracle import Finding
from tests.sim.plan import Plan, make_plan
from tests.sim.report import Report, write_page
from tests.sim.shrink import Shrinker
from tests.sim.trace import traced
from tests.sim.world import Verdict, simulate

REPORT_S = 5.0
CHUNKS = 2
"""That a process runs; each of its seeds leaves some 3 MiB of cycles."""
YOUNG_OBJECTS_MAX = 200_000
"""Before Python looks for cycles: what a run makes, it keeps to its end."""


class Failure(NamedTuple):
    """A seed with findings."""

    seed: int
    findings: list[Finding]


class Chunk(NamedTuple):
    """The findings of a process in some seeds."""

    seeds: int
    events: int
    counts: Counter[str]
    failures: list[Failure]


def plan_of(name: str) -> Plan:
    """Return the plan of a seed, or of a file that was stored."""
    if name.lstrip("-").isdigit():
        return make_plan(int(name), list(FAULTS))
    return Plan.from_json(Path(name).read_text(encoding="utf-8"))


def verdict_of(plan: Plan) -> Verdict:
    """Run a plan; run it again if it failed, and compare."""
    verdict = simulate(plan)
    if verdict.findings:
        again = simulate(plan)
        if again.digest != verdict.digest:
            text = f"two digests of one plan: {verdict.digest:08x} and {again.digest:08x}"
            verdict.findings.append(Finding("not deterministic", text))
    return verdict


def run_chunk(seeds: range, always: Sequence[str] = ()) -> Chunk:
    """Simulate some seeds, each with the faults that are always wanted."""
    counts: Counter[str] = Counter()
    events = 0
    failures = []
    for seed in seeds:
        verdict = verdict_of(make_plan(seed, list(FAULTS), always))
        counts.update(verdict.counts)
        events += verdict.events
        if verdict.findings:
            failures.append(Failure(seed, verdict.findings))
    return Chunk(len(seeds), events, counts, failures)


def _chunks(base: int, count: int) -> Iterator[range]:
    size = 25
    for first in range(base, base + count, size):
        yield range(first, min(first + size, base + count))


def base_of(text: str) -> int:
    """Return the first seed: a number, or one made from a commit's hash."""
    if text.isdigit():
        return int(text)
    return int(_commit(text)[:10], 16)


def _commit(name: str) -> str:
    done = subprocess.run(["git", "rev-parse", name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} is neither a number nor a commit of this directory")
    return done.stdout.strip()


def run(
    seeds: int,
    base: int,
    processes: int,
    always: Sequence[str] = (),
    target: Path | None = None,
    seconds: float = math.inf,
) -> int:
    """Simulate many seeds and report; 0 if nothing was found.

    Args:
        seeds: How many.
        base: The first.
        processes: At work at once.
        always: Faults that every run has.
        target: A file for the report, as JSON; None for none.
        seconds: It ends after these, with the seeds that were simulated by then.

    Returns:
        The program's exit code.
    """
    began = reported = time.monotonic()
    done, events = 0, 0
    counts: Counter[str] = Counter()
    failures: list[Failure] = []
    pa.array([b""])  # imports pandas once, and not in each process
    # No process lives long enough to need a search for cycles.
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, initializer=gc.disable, maxtasksperchild=CHUNKS) as pool:
        for chunk in pool.imap_unordered(partial(run_chunk, always=always), _chunks(base, seeds)):
            done += chunk.seeds
            events += chunk.events
            counts.update(chunk.counts)
            failures += chunk.failures
            for failure in chunk.failures:
                _print_failure(failure)
            now = time.monotonic()
            if now - reported > REPORT_S:
                reported = now
                rate = done / (now - began)
                print(f"{done} of {seeds} seeds, {rate:.0f}/s, {len(failures)} failed", flush=True)
            if now - began > seconds:
                pool.terminate()
                break
        pool.close()
        pool.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = Report(
        commit=_commit("HEAD")[:8] if target else "",
        base=base,
        seeds=done,
        processes=processes,
        seconds=time.monotonic() - began,
        cpu_seconds=used.ru_utime + used.ru_stime,
        events=events,
        failed=sorted(failure.seed for failure in failures),
        counts=dict(counts),  # `asdict` cannot copy a Counter
    )
    print(f"\n{report.text()}")
    if target:
        report.store(target)
    return 1 if report.failed or report.absent else 0


def figures() -> int:
    """Write the figures of the stored run into the page."""
    write_page()
    return 0


def _print_failure(failure: Failure) -> None:
    print(f"seed {failure.seed}: {len(failure.findings)} findings")
    for finding in failure.findings[:3]:
        print(f"  {finding.invariant}: {finding.text[:300]}")
    print(f"  python -m tests.sim replay {failure.seed} --trace", flush=True)


def replay(name: str, *, trace: bool, partition: str | None, picture: str | None) -> int:
    """Run one plan and print its findings; 0 if there is none."""
    plan = plan_of(name)
    if picture is not None:
        return _draw(plan, picture)
    if trace:
        verdict, lines = traced(plan, partition)
        print("\n".join(lines))
    else:
        verdict = verdict_of(plan)
    print(f"digest {verdict.digest:08x}, {verdict.events} events")
    for finding in verdict.findings:
        print(f"{finding.invariant}: {finding.text}")
    return 1 if verdict.findings else 0


def _draw(plan: Plan, target: str) -> int:
    """Print a run in columns, or write it as SVG."""
    from tests.sim.picture import as_drawing, as_text, pictured  # noqa: PLC0415 - needs `docs`

    rows, findings = pictured(plan)
    if target == "-":
        print(as_text(rows))
    else:
        Path(target).write_text(as_drawing(rows, f"Seed {plan.seed}").svg(), encoding="utf-8")
    for finding in findings:
        print(f"{finding.invariant}: {finding.text}")
    return 1 if findings else 0


def first(seeds: int, without: Sequence[str], *, shrinks: bool) -> int:
    """Simulate from seed 0 until one fails, and print it; 0 if none did."""
    for seed in range(seeds):
        plan = make_plan(seed, list(FAULTS))
        verdict = simulate(plan)
        findings = [each for each in verdict.findings if each.invariant not in without]
        if findings:
            finding = findings[0]
            size = f" {_size_of(plan)}" if shrinks else ""
            print(f"seed {seed:4}  {finding.invariant:4}{size} {finding.text[:120]}")
            return 1
    return 0


def kills(seeds: range, alone: str) -> int:
    """Simulate, and print which invariants each failing seed breaks; 0 if none did.

    Args:
        seeds: At most these.
        alone: It ends with a seed that breaks this invariant and no other; empty never ends it.

    Returns:
        1 if any seed failed.
    """
    failing = 0
    for seed in seeds:
        verdict = simulate(make_plan(seed, list(FAULTS)))
        broken = sorted({finding.invariant for finding in verdict.findings})
        if broken:
            failing += 1
            print(f"seed {seed}: {' '.join(broken)}", flush=True)
        if broken == [alone]:
            break
    return 1 if failing else 0


def digest(seeds: int) -> int:
    """Print one digest of many runs, which every build and every Python must find alike."""
    whole = 0
    for seed in range(seeds):
        whole = zlib.crc32(b"%d" % simulate(make_plan(seed, list(FAULTS))).digest, whole)
    print(f"{whole:08x} of {seeds} seeds")
    return 0


def _size_of(plan: Plan) -> str:
    """Make a failing plan smaller and say how small."""
    shrinker = Shrinker(plan)
    plan = shrinker.shrink()
    return f"{len(plan.operations) + len(plan.faults)} entries ({shrinker.runs} runs)"


def shrink(name: str, target: str | None) -> int:
    """Make a failing plan smaller and write it."""
    shrinker = Shrinker(plan_of(name))
    if not shrinker.invariants:
        print("nothing is wrong with this plan")
        return 2
    plan = shrinker.shrink()
    text = plan.to_json()
    entries = len(plan.operations) + len(plan.faults)
    print(f"{entries} entries after {shrinker.runs} runs, {sorted(shrinker.invariants)}")
    if target:
        Path(target).write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


def _kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if unknown := sorted(set(kinds) - set(FAULTS)):
        raise argparse.ArgumentTypeError(
            f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}"
        )
    return kinds


def _plant(given: argparse.Namespace) -> int:
    # Not in a planted copy.
    from tests.sim.invariants import run_invariants  # noqa: PLC0415
    from tests.sim.mutants import run_mutants  # noqa: PLC0415

    if given.command == "invariants":
        return run_invariants(given.names, given.seeds, given.processes)
    options = [f"--without={each}" for each in given.without]
    options += ["--shrink"] * given.shrink
    return run_mutants(given.names, given.seeds, options, given.processes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="simulate many seeds")
    running.add_argument("--seeds", type=int, default=20_000)
    running.add_argument("--base", default="HEAD", help="first seed, or a commit that gives it")
    running.add_argument("-j", "--processes", type=int, default=2)
    running.add_argument("--seconds", type=float, default=math.inf, help="it ends after these")
    running.add_argument("--json", type=Path, metavar="FILE", help="store what it has shown there")
    running.add_argument(
        "--always", default=[], type=_kinds, help="faults that every run has, between commas"
    )
    again = commands.add_parser("replay", help="run one seed, or a stored plan")
    again.add_argument("plan", help="a seed, or a plan's file")
    again.add_argument("--trace", action="store_true", help="print what happened")
    again.add_argument("--partition", help="trace only this one, such as orders-0")
    again.add_argument("--picture", metavar="FILE", help="draw it as SVG; - prints columns")
    small = commands.add_parser("shrink", help="make a failing plan smaller")
    small.add_argument("plan", help="a seed, or a plan's file")
    small.add_argument("--to", metavar="FILE", help="write the plan there")
    one = commands.add_parser("first", help="simulate from seed 0 to the first failure")
    one.add_argument("--seeds", type=int, default=2_000)
    one.add_argument("--without", action="append", default=[], help="an invariant not to check")
    one.add_argument("--shrink", action="store_true", help="say how small its plan can be made")
    every = commands.add_parser("kills", help="say which invariants each of the first seeds breaks")
    every.add_argument("--seeds", type=int, default=300)
    every.add_argument("--base", type=int, default=0, help="first seed")
    every.add_argument("--alone", default="", help="end at the first seed with this one only")
    commands.add_parser("figures", help="write those of the stored run into the page")
    same = commands.add_parser("digest", help="print one digest of the first seeds")
    same.add_argument("--seeds", type=int, default=200)
    planted = commands.add_parser("mutants", help="plant faults, and see which seed finds each")
    planted.add_argument("names", nargs="*")
    planted.add_argument("--seeds", type=int, default=2_000)
    planted.add_argument("--without", action="append", default=[], help="see first")
    planted.add_argument("--shrink", action="store_true", help="see first")
    planted.add_argument("-j", "--processes", type=int, default=1)
    necessary = commands.add_parser(
        "invariants", help="plant a fault for each invariant that only this one finds"
    )
    necessary.add_argument("names", nargs="*", help="of invariants; all without any")
    necessary.add_argument("--seeds", type=int, default=500)
    necessary.add_argument("-j", "--processes", type=int, default=1)
    return parser


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "run": lambda given: run(
        given.seeds,
        base_of(given.base),
        given.processes,
        given.always,
        given.json,
        given.seconds,
    ),
    "figures": lambda _: figures(),
    "replay": lambda given: replay(
        given.plan, trace=given.trace, partition=given.partition, picture=given.picture
    ),
    "shrink": lambda given: shrink(given.plan, given.to),
    "first": lambda given: first(given.seeds, given.without, shrinks=given.shrink),
    "kills": lambda given: kills(range(given.base, given.base + given.seeds), given.alone),
    "digest": lambda given: digest(given.seeds),
    "mutants": _plant,
    "invariants": _plant,
}


def main() -> int:
    """Read the command line and do what it says."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    given = _parser().parse_args()
    return _COMMANDS[given.command](given)


if __name__ == "__main__":
    sys.exit(main())
