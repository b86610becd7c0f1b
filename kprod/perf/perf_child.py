"""The process that one client runs in: `python -m kprod.perf.perf_child`.

It reads a workload as a line of JSON, reports that it is ready, and starts at the next line; a
further line, or the end of standard input, stops it. It reports in lines of JSON: every `report_ms`
the number of records sent and the latencies measured since, and at the end the totals. So each
client's threads and memory are measured in a separate process.

Thread-safety: the client's loop has the main thread; one thread reports, one listens.
"""

import json
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from kprod.clock import SystemClock
from kprod.perf.client_loops import LOOPS, Target
from kprod.perf.pace import FullSpeed, OpenLoop, Pace
from kprod.perf.payloads import payloads_of
from kprod.perf.perf_run import Goal, PerfRun
from kprod.perf.workload import Workload

Say = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Run the workload that standard input names."""
    workload = Workload.from_json(sys.stdin.readline())
    clock = SystemClock()
    pace: Pace = FullSpeed(clock)
    if workload.rate is not None:
        pace = OpenLoop(clock, workload.rate)
    goal = Goal(
        record_count=workload.record_count,
        warmup_count=workload.warmup_count,
        sample_every=workload.sample_every,
    )
    run = PerfRun(clock, pace, payloads_of(workload.payloads), goal)
    _say({"kind": "ready"})
    if not sys.stdin.readline():
        return
    threading.Thread(target=_listen, args=(run,), daemon=True).start()
    with Reporter(run, workload, _say):
        LOOPS[workload.client](run, Target(workload.topic, workload.settings))
    _say(final_report(run))


class Reporter:
    """Reports the progress of a run, at intervals, in a separate thread.

    Args:
        run: The run.
        workload: The workload of this process, and the file for single latencies.
        say: Called with each report.
    """

    __slots__ = ("_latencies_file", "_over", "_run", "_say", "_stack", "_thread", "_wait_s")

    def __init__(self, run: PerfRun, workload: Workload, say: Say) -> None:
        self._run = run
        self._say = say
        self._wait_s = workload.report_ms / 1_000
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kprod-perf-reporter")
        self._stack = ExitStack()
        self._latencies_file: IO[str] | None = None
        if workload.latencies_file is not None:
            path = Path(workload.latencies_file)
            self._latencies_file = self._stack.enter_context(path.open("w", encoding="ascii"))

    def __enter__(self) -> None:
        """Create a reporter; its thread is not started yet."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Report the rest, and end."""
        self._over.set()
        self._thread.join()
        self._report()
        self._stack.close()

    def _work(self) -> None:
        while not self._over.wait(self._wait_s):
            self._report()

    def _report(self) -> None:
        warm, steady, taken = self._run.take()
        if self._latencies_file is not None:
            self._latencies_file.writelines(f"{latency_ns}\n" for latency_ns in taken)
        self._say(
            {
                "kind": "interval",
                "sent": self._run.figures.sent_count,
                "sent_bytes": self._run.figures.sent_bytes,
                "warmup_latencies": warm.to_wire(),
                "steady_latencies": steady.to_wire(),
            }
        )


def final_report(run: PerfRun) -> dict[str, Any]:
    """Sum up a run that has ended.

    Args:
        run: A run whose loop has returned.

    Returns:
        The values that `PerfRound` reads.
    """
    figures = run.figures
    return {
        "kind": "end",
        "sent": figures.sent_count,
        "sent_bytes": figures.sent_bytes,
        "elapsed_ns": figures.elapsed_ns,
        "steady_elapsed_ns": figures.steady_elapsed_ns,
        "cpu_s": figures.cpu_s,
        "peak_bytes": peak_bytes(),
        "errors": dict(figures.errors),
        "metrics": run.metrics,
    }


def peak_bytes() -> int | None:
    """Return the largest size of this process so far, where the system says it (Linux).

    Source: VmHWM in proc(5); `ru_maxrss` of a child counts the parent's size before exec.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text("utf-8").splitlines())
    return int(lines["VmHWM"].split()[0]) * 1_024


def _listen(run: PerfRun) -> None:
    sys.stdin.readline()
    run.stop()


def _say(report: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
