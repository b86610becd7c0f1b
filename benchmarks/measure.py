"""Ways to measure one round of one contestant: a rate, a cost, a process of its own.

Thread-safety: one thread, the caller's.
"""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def rate(prepare: Callable[[], Callable[[], int]]) -> Callable[[], float]:
    """Measure units per second of the work that `prepare` makes; the making is not timed.

    Args:
        prepare: Function that prepares one round; returns the work, which returns its number of
            units.

    Returns:
        A function for `Contestant`, which returns one sample.
    """

    def measure() -> float:
        count, elapsed_s = _timed(prepare())
        return count / elapsed_s

    return measure


def cost_ns(prepare: Callable[[], Callable[[], int]]) -> Callable[[], float]:
    """Measure nanoseconds per unit of the work that `prepare` makes; the making is not timed.

    Args:
        prepare: As for `rate`.

    Returns:
        A function for `Contestant`, which returns one sample.
    """

    def measure() -> float:
        count, elapsed_s = _timed(prepare())
        return elapsed_s * 1e9 / count

    return measure


def _timed(work: Callable[[], int]) -> tuple[int, float]:
    gc.collect()  # garbage of the contestant before is not ours to pay for
    started = time.perf_counter()
    count = work()
    return count, time.perf_counter() - started


def child_figures(command: Sequence[str], *, timeout_s: float) -> Mapping[str, float]:
    """Run a contestant in a process of its own and read the figures it prints.

    Args:
        command: Arguments after the interpreter, such as a script and its options.
        timeout_s: Longest wait; the child is killed after it.

    Returns:
        The JSON object on the last line of the child's standard output.

    Raises:
        RuntimeError: The child failed, or printed no JSON object; with the end of what it said.
    """
    child = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    return printed_figures(child)


def printed_figures(child: "subprocess.CompletedProcess[str]") -> Mapping[str, float]:
    """Read the figures that a contestant's process printed.

    Args:
        child: The process, with what it wrote.

    Returns:
        The JSON object on the last line of its standard output.

    Raises:
        RuntimeError: As for `child_figures`.
    """
    try:
        figures = json.loads(child.stdout.strip().rpartition("\n")[2])
    except ValueError:
        figures = None
    if child.returncode != 0 or not isinstance(figures, dict):
        raise RuntimeError(
            f"{' '.join(child.args[1:])}: exit code {child.returncode}; it wrote:\n"
            f"{child.stdout[-1000:]}\n{child.stderr[-3000:]}"
        )
    return {name: float(value) for name, value in figures.items()}


def own_process_figures() -> dict[str, float]:
    """Count what the calling process has used so far.

    Returns:
        `cpu_s` and, on Linux, `peak_bytes`.

    Source: VmHWM in proc(5); `ru_maxrss` of a child counts the parent's size before exec.
    """
    figures = {"cpu_s": time.process_time()}
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text("utf-8").splitlines())
        figures["peak_bytes"] = float(lines["VmHWM"].split()[0]) * 1024
    return figures
