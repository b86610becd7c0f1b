"""A picture over time of kprod at real work: GIL, cores, compression and writes, thread by thread.

The same run as kprod's in `real_work.py` on the mock cluster, with the kernel's perf beside it (see
`gil_trace.py` for its needs). For caller and sender it shows the share of the time in each state,
for the broker's process that on a core, over the whole trace; and the rate of the traced run beside
that of a run without a trace. The plot has a band for each thread over some milliseconds from the
middle of the trace.

    python benchmarks/real_work_timeline.py --plot docs/plots/real_work_timeline.png
    … --codecs zstd snappy --window 0.06

Without the GIL a sender compresses or goes to sleep, so all that takes time in that state is
compression.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import gil_trace
import race_brokers
from gil_trace import NoTrace
from race_brokers import RaceBroker
from real_work import CODECS, Run
from real_work_shapes import CodecName, Shape
from report import Report, main
from report_values import Metric
from thread_states import Span, State, sender_of, shares_of, spans_of, threads_of

TITLE = "kprod at real work, over time"
CALLER, SENDER, BROKER = "caller", "sender", "broker"
SECONDS, SECONDS_QUICK = 3.0, 1.0
SETTLED_S, SETTLED_QUICK_S = 0.8, 0.6
"""A run's time before the trace begins: import, connections, first memory."""

TRACED_S, TRACED_QUICK_S = 2.0, 0.2
EXIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """One codec's trace.

    Attributes:
        codec: Kafka's name of it.
        threads: The states of `CALLER` and `SENDER`.
        broker: The states of each thread of the broker's process.
    """

    codec: CodecName
    threads: dict[str, list[Span]]
    broker: list[list[Span]]


class Program:
    """Traces, reports and draws.

    Thread-safety: one thread.
    """

    def __init__(self) -> None:
        """Start without a trace."""
        self._timelines: list[Timeline] = []

    def benchmark(self, report: Report) -> None:
        """Trace each codec's run.

        Args:
            report: Takes the shares and the rates.

        Raises:
            SystemExit: Nothing can be traced here.
        """
        rate = Metric("rate", "records/s")
        try:
            with gil_trace.probed(), race_brokers.running("mock") as broker:
                for codec in report.options.extra.codecs:
                    plain = _records_per_s(_start(report, broker, codec))
                    traced = self._trace(report, broker, codec)
                    report.add(rate, f"{codec}, not traced", [plain])
                    report.add(rate, f"{codec}, traced", [traced])
        except NoTrace as error:
            raise SystemExit(f"nothing can be traced: {error}") from error

    def _trace(self, report: Report, broker: RaceBroker, codec: CodecName) -> float:
        child = _start(report, broker, codec)
        time.sleep(report.pick(SETTLED_S, SETTLED_QUICK_S))
        events = gil_trace.trace(report.pick(TRACED_S, TRACED_QUICK_S))
        records_per_s = _records_per_s(child)
        tids = {CALLER: child.pid, SENDER: sender_of(events, child.pid)}
        threads = {name: spans_of(events, tid) for name, tid in tids.items()}
        served = [spans_of(events, tid) for tid in sorted(threads_of(events, broker.pid))]
        self._timelines.append(Timeline(codec, threads, served))
        for name, spans in threads.items():
            for state, share in shares_of(spans).items():
                report.add(Metric(f"{codec}: {name}", "% of the time"), state.value, [100 * share])
        busy = sum(shares_of(spans)[State.RUNS_WITHOUT_GIL] for spans in served)
        report.add(Metric(f"{codec}: {BROKER}", "% of the time"), "has a core", [100 * busy])
        return records_per_s

    def plot(self, report: Report, path: Path) -> None:
        """Draw the middle of each trace.

        Args:
            report: Its options say how long.
            path: Ends in png, svg or pdf.
        """
        from timeline_plot import Band, draw_bands  # noqa: PLC0415 - matplotlib takes a second

        panels = []
        for timeline in self._timelines:
            bands = list(starmap(Band, timeline.threads.items()))
            bands += [Band(BROKER, _running(spans), is_python=False) for spans in timeline.broker]
            panels.append((f"codec {timeline.codec}", bands))
        draw_bands(TITLE, panels, report.options.extra.window, path)


def _running(spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if span.state is State.RUNS_WITHOUT_GIL]


def _start(report: Report, broker: RaceBroker, codec: CodecName) -> subprocess.Popen[str]:
    shape = Shape(330, 1_000, 12, codec)
    seconds = report.pick(SECONDS, SECONDS_QUICK)
    with broker.topic(codec, shape.partitions) as topic:  # the mock deletes none
        run = Run("kprod", broker.address, topic, shape, seconds)
        return subprocess.Popen([sys.executable, *run.command()], stdout=subprocess.PIPE, text=True)


def _records_per_s(child: subprocess.Popen[str]) -> float:
    written, _ = child.communicate(timeout=EXIT_S)
    figures = json.loads(written)
    return float(figures["count"] / figures["elapsed_s"])


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=["none", "lz4"])
    parser.add_argument("--window", type=float, default=0.03, help="seconds to draw")


if __name__ == "__main__":
    program = Program()
    main(TITLE, program.benchmark, arguments=_arguments, plot=program.plot)
