"""One client's processes, from their start to the sum of what they have counted.

All processes report that they are ready before any is started, so that they send at the same time
and the interpreter's start is not measured. They are in a session of their own: Ctrl-C reaches only
the process that started them, which stops them in order (`PerfRound.stop`) or kills them.

Thread-safety: one thread; one more for each process reads what it says.
"""

import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from kprod.clock import Clock
from kprod.errors import KprodError
from kprod.perf.latency_tally import LatencyTally
from kprod.perf.workload import Workload

NS_PER_S = 1_000_000_000
_END_S = 10.0
_STDERR_SHOWN = 2_000


class PerfFailed(KprodError):
    """A client's process ended without a result; the text has what it said."""


class Interval(NamedTuple):
    """The events since the previous interval.

    Attributes:
        at_s: Seconds since the processes were started.
        elapsed_s: Duration of the interval.
        record_count: Records whose delivery was measured, times `Workload.sample_every`.
        value_bytes: Average size of a value so far.
        latencies: Measured in it.
    """

    at_s: float
    elapsed_s: float
    record_count: int
    value_bytes: float
    latencies: LatencyTally


@dataclass(slots=True)
class Part:
    """The records of a part of a run.

    Attributes:
        record_count: Number of records sent.
        elapsed_s: Duration of the longest process, to its last acknowledgement.
        latencies: All measured latencies.
    """

    record_count: int = 0
    elapsed_s: float = 0.0
    latencies: LatencyTally = field(default_factory=LatencyTally)

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.record_count / self.elapsed_s if self.elapsed_s else 0.0


@dataclass(slots=True)
class PerfResult:
    """The results of one client, over all its processes.

    Attributes:
        client: The client's name.
        whole: Figures from the first record on.
        steady: Figures from the end of the warm-up on.
        sent_bytes: Total size of the values.
        cpu_s: User and system time of all processes in that time.
        peak_bytes: Their largest sizes added up; None where the system does not say.
        errors: Number of failed records by the client's error text.
        intervals: The intervals, in order.
        metrics: Metrics of the first process's client.
        wire_bytes: Size of the sent record batches, including retries; None if the client does not
            count it.
    """

    client: str
    whole: Part = field(default_factory=Part)
    steady: Part = field(default_factory=Part)
    sent_bytes: int = 0
    cpu_s: float = 0.0
    peak_bytes: int | None = 0
    errors: Counter[str] = field(default_factory=Counter)
    intervals: list[Interval] = field(default_factory=list)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    wire_bytes: int | None = 0

    @property
    def sent_count(self) -> int:
        """Number of records sent."""
        return self.whole.record_count

    @property
    def delivered_count(self) -> int:
        """Records that were acknowledged, as far as the client says."""
        return self.sent_count - self.errors.total()


class PerfRound:
    """The processes of one client.

    Args:
        workloads: One for each process, of the same client.
        clock: Clock for the intervals.
    """

    __slots__ = ("_children", "_clock", "_reports", "_result", "_workloads")

    def __init__(self, workloads: Sequence[Workload], clock: Clock) -> None:
        self._workloads = workloads
        self._clock = clock
        self._children: list[subprocess.Popen[str]] = []
        self._reports: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
        self._result = PerfResult(workloads[0].client)

    def __enter__(self) -> Self:
        """Start the processes, and wait until each is ready."""
        try:
            for index, workload in enumerate(self._workloads):
                self._start(index, workload)
            for _ in self._workloads:
                self._next_report()
        except BaseException:
            self._end_children()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End those that still run."""
        self._end_children()

    def intervals(self, every_s: float, live: Callable[[Interval], object]) -> Iterator[Interval]:
        """Start the processes, and yield intervals until they end.

        Args:
            every_s: Minimum length of an interval.
            live: Called with the current interval, several times in each.

        Yields:
            Each interval; the last is shorter.

        Raises:
            PerfFailed: A process ended without a result.
        """
        began_ns = since_ns = self._clock.now_ns()
        for child in self._children:
            _write(child, "go\n")
        scale, left = self._workloads[0].sample_every, len(self._children)
        latencies, value_bytes = LatencyTally(), 0.0

        def interval_now() -> Interval:
            now_ns = self._clock.now_ns()
            at_s, elapsed_s = (now_ns - began_ns) / NS_PER_S, (now_ns - since_ns) / NS_PER_S
            return Interval(at_s, elapsed_s, latencies.count * scale, value_bytes, latencies)

        while left:
            report = self._next_report()
            if report["kind"] == "end":
                left -= 1
                self._add(report)
                continue
            latencies.add(self._taken(report))
            value_bytes = report["sent_bytes"] / max(report["sent"], 1)
            interval = interval_now()
            live(interval)
            if interval.elapsed_s >= every_s:
                self._result.intervals.append(interval)
                yield interval
                latencies, since_ns = LatencyTally(), self._clock.now_ns()
        if latencies.count:
            interval = interval_now()
            self._result.intervals.append(interval)
            yield interval

    def stop(self) -> None:
        """Tell the processes to send no more; they wait for records in flight, within a limit."""
        for child in self._children:
            _write(child, "stop\n")

    @property
    def result(self) -> PerfResult:
        """The results of the processes; complete after `intervals` has ended."""
        return self._result

    def _start(self, index: int, workload: Workload) -> None:
        child = subprocess.Popen(
            [sys.executable, "-m", "kprod.perf.perf_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._children.append(child)
        threading.Thread(target=self._read, args=(index, child), daemon=True).start()
        _write(child, workload.to_json() + "\n")

    def _read(self, index: int, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None  # noqa: S101 - piped
        for line in child.stdout:
            self._reports.put((index, json.loads(line)))
        self._reports.put((index, None))

    def _next_report(self) -> dict[str, Any]:
        """Return the next report of any process; skips the end of one that has reported all."""
        while True:
            index, report = self._reports.get()
            if report is not None:
                return report
            child = self._children[index]
            code = child.wait()
            if code:
                assert child.stderr is not None  # noqa: S101 - piped
                said = child.stderr.read().strip()[-_STDERR_SHOWN:]
                last = said.rpartition("\n")[2]
                raise PerfFailed(f"the process of {self._result.client} ended with {code}: {last}")

    def _taken(self, report: Mapping[str, Any]) -> LatencyTally:
        """Count an interval's latencies; returns them."""
        steady = LatencyTally.from_wire(report["steady_latencies"])
        self._result.steady.latencies.add(steady)
        tally = LatencyTally.from_wire(report["warmup_latencies"])
        tally.add(steady)
        self._result.whole.latencies.add(tally)
        return tally

    def _add(self, report: Mapping[str, Any]) -> None:
        result = self._result
        _extend(result.whole, report["sent"], report["elapsed_ns"])
        steady_count = max(report["sent"] - self._workloads[0].warmup_count, 0)
        _extend(result.steady, steady_count, report["steady_elapsed_ns"])
        result.sent_bytes += report["sent_bytes"]
        result.cpu_s += report["cpu_s"]
        result.peak_bytes = _sum(result.peak_bytes, report["peak_bytes"])
        result.errors.update(report["errors"])
        result.metrics = result.metrics or report["metrics"]
        result.wire_bytes = _sum(result.wire_bytes, _batch_bytes_sent(report["metrics"]))

    def _end_children(self) -> None:
        for child in self._children:
            if child.stdin is not None:
                try:
                    child.stdin.close()
                except BrokenPipeError:
                    continue
        for child in self._children:
            try:
                child.wait(0.2 if child.returncode is None else 0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(_END_S)
            for stream in (child.stdout, child.stderr):
                if stream is not None:
                    stream.close()


def _write(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin is not None  # noqa: S101 - piped
    try:
        child.stdin.write(line)
        child.stdin.flush()
    except BrokenPipeError:
        return  # it has ended; its end is read


def _batch_bytes_sent(metrics: Mapping[str, Mapping[str, float]]) -> int | None:
    totals = [
        int(values["byte-total"])
        for group, values in metrics.items()
        if group.startswith("producer-topic-metrics.") and "byte-total" in values
    ]
    return sum(totals) if totals else None


def _extend(part: Part, record_count: int, elapsed_ns: int) -> None:
    part.record_count += record_count
    part.elapsed_s = max(part.elapsed_s, elapsed_ns / NS_PER_S)


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
