"""The wait of a sender for the GIL beside a busy caller, and the cost of four ways to shorten it.

A caller is in a compiled method all the time, a sender works 0.2 ms without the GIL and takes it
again (`gil_handover_loop.pyx`, compiled at the start). While the sender wants the GIL, the caller

* does nothing: CPython takes the GIL from it after the switch interval of 5 ms;
* releases it and takes it again at once;
* does so and yields its core in between;
* releases it and waits, 100 us at most, until the sender has it.

Each way runs with two cores for the two threads, and beside a third, busy process. The waits'
distribution is shown, and the caller's turns as a share of those that it makes alone; *cost* is the
time that the caller loses for each time that the sender has the GIL, which it keeps for a moment
only.

    python benchmarks/gil_handover.py [--quick]

Needs Cython, a C compiler, and an interpreter with a GIL.

Thread-safety: one program at a time on a machine.
"""

import contextlib
import importlib.util
import itertools
import math
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from report import Contestant, Report, main
from report_values import Metric

SOURCE = Path(__file__).with_name("gil_handover_loop.pyx")
WORK_NS = 200_000
SECONDS, SECONDS_QUICK = 2.0, 0.25
BLOCK = 1_000
BESIDE = {"": False, ", third process": True}
BASELINE = "nothing"
METRICS = (
    *(Metric(f"wait, {name}", "us", more_is_better=False) for name in ("p50", "p90", "p99", "max")),
    Metric("sender's turns", "1/s"),
    Metric("caller's turns", "1/s"),
    Metric("caller's turns, share of alone", "%"),
    Metric("cost", "us of the caller per turn of the sender", more_is_better=False),
)


def benchmark(report: Report) -> None:
    """Run each way with and without a third process, in turn."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise SystemExit("this interpreter has no GIL to hand over")
    seconds = report.pick(SECONDS, SECONDS_QUICK)
    with tempfile.TemporaryDirectory(prefix="kprod-handover-") as directory:
        loop = compiled(Path(directory))
        contestants = [
            Contestant(
                f"{way}{suffix}",
                partial(measure, loop, loop.WAYS[way], seconds, is_crowded=is_crowded),
                baseline=f"{BASELINE}{suffix}",
            )
            for (suffix, is_crowded), way in itertools.product(BESIDE.items(), loop.WAYS)
        ]
        report.compare(contestants, metric=METRICS)


def compiled(directory: Path) -> ModuleType:
    """Compile the loop and import it.

    Args:
        directory: Takes a copy of the source and the results; the module needs it until the end.

    Returns:
        The module.
    """
    source = directory / SOURCE.name
    shutil.copy(SOURCE, source)
    command = [sys.executable, "-m", "Cython.Build.Cythonize", "--inplace", "--quiet", str(source)]
    subprocess.run(command, check=True, cwd=directory, stdout=subprocess.DEVNULL)
    (extension,) = directory.glob(f"{SOURCE.stem}.*.so")
    spec = importlib.util.spec_from_file_location(SOURCE.stem, extension)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(loop: ModuleType, way: int, seconds: float, *, is_crowded: bool) -> Mapping[str, float]:
    """Run the caller alone for a quarter of the time, then beside the sender.

    Args:
        loop: The compiled module.
        way: One of the values of its `WAYS`.
        seconds: Time beside the sender.
        is_crowded: A third process is busy meanwhile.

    Returns:
        A figure for each of `METRICS`.
    """
    with _third_process() if is_crowded else contextlib.nullcontext():
        pair = loop.Pair(way, WORK_NS)
        alone_per_s = _turns_per_s(pair.turn, seconds / 4)
        waits_ns: list[int] = []
        sender = threading.Thread(target=lambda: waits_ns.extend(pair.run_sender()))
        sender.start()
        try:
            turns_per_s = _turns_per_s(pair.turn, seconds)
        finally:
            pair.stop()
            sender.join()
    return figures_of(waits_ns, seconds, turns_per_s, alone_per_s)


def figures_of(
    waits_ns: Sequence[int], seconds: float, turns_per_s: float, alone_per_s: float
) -> Mapping[str, float]:
    """Summarise one run.

    Args:
        waits_ns: The sender's waits for the GIL, at least one.
        seconds: Time in which they happened.
        turns_per_s: Rate of the caller beside the sender.
        alone_per_s: Rate of the caller alone.

    Returns:
        A figure for each of `METRICS`.
    """
    waits_us = [wait / 1e3 for wait in sorted(waits_ns)]
    per_s = len(waits_us) / seconds
    share = turns_per_s / alone_per_s
    ranks = (0.5, 0.9, 0.99, 1.0)
    values = (
        *(waits_us[max(0, math.ceil(rank * len(waits_us)) - 1)] for rank in ranks),
        *(per_s, turns_per_s, 100 * share, 1e6 * (1 - share) / per_s),
    )
    return {metric.name: value for metric, value in zip(METRICS, values, strict=True)}


def _turns_per_s(turn: Callable[[], object], seconds: float) -> float:
    started = time.perf_counter()
    count, elapsed_s = 0, 0.0
    while elapsed_s < seconds:
        for _ in itertools.repeat(None, BLOCK):
            turn()
        count += BLOCK
        elapsed_s = time.perf_counter() - started
    return count / elapsed_s


@contextlib.contextmanager
def _third_process() -> Generator[None]:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.1)  # until it is past its imports
        yield
    finally:
        busy.kill()
        busy.wait()


if __name__ == "__main__":
    main("Handing the GIL over", benchmark)
