"""Kafka's own producer, run by its own tool: `kafka-producer-perf-test`.

Set up as Kafka's documentation advises for throughput: batches of 1 MB, linger 20 ms, 64 MB of
buffer memory; acks=all and idempotent by default. Java's flags are those of Kafka's start script.

Its rate and CPU time are taken after the warm-up: between the first and the last of the lines that
the tool prints every second. A run too short for that counts as a whole. The tool takes a
number of records, not a duration: a run that was too short is repeated with more.

The tool draws each record's value at random from the lines of a file, and sends no keys.

Thread-safety: one thread, the caller's.
Source: Kafka 4.3.1, org.apache.kafka.tools.ProducerPerformance; bin/kafka-run-class.sh.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from race_brokers import ROOT

JAVA = "Java"
REPORT_MS = 1_000
WARM_UP_S = 5.0  # Java's compiler is done by then
LINES_MIN = 4  # after the warm-up, for a rate between the first and the last
BYTES_GUESS = 70e6  # a second, which decides how many records make the time that is asked for
GROWTH = 1.15  # a run is prepared for this multiple of the last one's rate
TRIES = 4
SETTINGS = {
    "acks": "all",
    "batch.size": "1000000",
    "linger.ms": "20",
    "buffer.memory": str(64 << 20),
}
JAVA_FLAGS = (
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_LINE = re.compile(r"^(\d+) records sent")


@dataclass(frozen=True, slots=True)
class JavaLoad:
    """The records that the tool sends.

    Attributes:
        values: At least one, none with a line feed; each as likely as another.
        codec: Kafka's name of it.
    """

    values: Sequence[bytes] = (b"v" * 100,)
    codec: str = "none"

    def rate_guess(self) -> float:
        """Return records/s to start from."""
        return BYTES_GUESS / statistics.fmean(map(len, self.values))

    def options(self, total: int, payload: Path) -> list[str]:
        """Write the tool's options.

        Args:
            total: Records to send.
            payload: File with the values, one a line.

        Returns:
            All but broker and topic.
        """
        settings = {**SETTINGS, "compression.type": self.codec}
        return [
            *("--num-records", str(total), "--payload-file", str(payload)),
            *("--throughput", "-1", "--reporting-interval", str(REPORT_MS)),
            *("--command-property", *(f"{name}={value}" for name, value in settings.items())),
        ]


HEADLINE = JavaLoad()


@dataclass(frozen=True, slots=True)
class _Moment:
    """The observations at one line of the tool."""

    at_s: float
    cpu_s: float
    count: int
    peak_bytes: float


def race_java(
    address: str, topic: str, seconds: float, load: JavaLoad = HEADLINE
) -> Mapping[str, float]:
    """Run the tool, until a run has lasted long enough after its warm-up.

    Args:
        address: `host:port`.
        topic: Exists.
        seconds: How long at least.
        load: The records to send.

    Returns:
        As `Load.figures`, of the last run; `offset` is of all of them.

    Raises:
        RuntimeError: The tool failed, or grew faster from each run to the next.
    """
    rate, offset = load.rate_guess(), 0
    spare_s = WARM_UP_S + 2 if seconds >= WARM_UP_S else 0  # a glance counts as a whole
    with tempfile.NamedTemporaryFile(prefix="kprod-race-") as payload:
        payload.write(b"\n".join(load.values))
        payload.flush()
        for _ in range(TRIES):
            total = int(rate * (seconds + spare_s))
            options = load.options(total, Path(payload.name))
            figures = _run(["--bootstrap-server", address, "--topic", topic, *options], total)
            offset += total
            if figures["elapsed_s"] >= seconds:
                return {**figures, "offset": offset}
            rate = max(rate, figures["count"] / figures["elapsed_s"]) * GROWTH
    raise RuntimeError(f"{TRIES} runs of kafka-producer-perf-test took less than {seconds} s each")


def _run(options: list[str], total: int) -> dict[str, float]:
    began_s = time.perf_counter()
    tool = subprocess.Popen(
        [*_command(), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    moments, said = _watch(tool)
    _, status, usage = os.wait4(tool.pid, 0)
    tool.returncode = os.waitstatus_to_exitcode(status)
    if tool.returncode or "99.9th" not in said:
        raise RuntimeError(f"kafka-producer-perf-test ended with {tool.returncode}: {said}")
    peak_bytes = max((moment.peak_bytes for moment in moments), default=0.0)
    warm = [moment for moment in moments if moment.at_s >= began_s + WARM_UP_S]
    if len(warm) < LINES_MIN:
        whole_s = usage.ru_utime + usage.ru_stime
        warm = [
            _Moment(began_s, 0, 0, peak_bytes),
            _Moment(time.perf_counter(), whole_s, total, peak_bytes),
        ]
    return {
        "count": warm[-1].count - warm[0].count,
        "elapsed_s": warm[-1].at_s - warm[0].at_s,
        "cpu_s": warm[-1].cpu_s - warm[0].cpu_s,
        "peak_bytes": peak_bytes,
    }


def _watch(tool: subprocess.Popen[str]) -> tuple[list[_Moment], str]:
    """Look at the tool at each of its lines; returns the observations, and the last line."""
    assert tool.stdout is not None
    moments: list[_Moment] = []
    count, said = 0, ""
    with tool.stdout as lines:
        for line in lines:
            said = line
            match = _LINE.match(line)
            if match is not None and "99.9th" not in line:  # the last line counts all again
                count += int(match[1])
                moments += _moments(tool.pid, count)
    return moments, said


def _command() -> list[str]:
    sys.path.insert(0, str(ROOT))
    from tests.plugins.kafka import artifacts_or_reason  # noqa: PLC0415 - of the source tree
    from tests.plugins.kafka_tools import KafkaTools  # noqa: PLC0415

    found = artifacts_or_reason()
    if isinstance(found, str):
        raise SystemExit(found)
    java = KafkaTools(found, JAVA_FLAGS).java(log=None)
    return [*java, "org.apache.kafka.tools.ProducerPerformance"]


def _moments(pid: int, count: int) -> list[_Moment]:
    """Return what a process has used, or nothing if it has ended (proc(5): utime, stime, VmHWM)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return []
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    cpu_s = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    peak_bytes = float(peak[1]) * 1024 if peak else 0.0
    return [_Moment(time.perf_counter(), cpu_s, count, peak_bytes)]
