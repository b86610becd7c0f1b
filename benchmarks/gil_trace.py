"""Traces threads with the kernel's perf: turns at the GIL and at the cores, and writes.

CPython tells nobody when a thread takes the GIL, so the kernel interrupts it where it enters and
leaves `take_gil` and where it enters `drop_gil` (uprobes). An interruption costs a few microseconds
of the thread that is traced; the GIL changes hands some thousand times a second.

Needs Linux, perf(1), the rights of root, and a CPython that has both functions as symbols.

Thread-safety: one thread, the caller's. One trace at a time on a machine.
Source: perf-probe(1), perf-record(1); CPython 3.11, Python/ceval_gil.h.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

GROUP = "kprod_gil"
PROBES = ("wants=take_gil", "has=take_gil%return", "drops=drop_gil")
EVENTS = (
    f"{GROUP}:*",
    "sched:sched_switch",
    "sched:sched_wakeup",
    "syscalls:sys_enter_sendmsg",
    "syscalls:sys_exit_sendmsg",
)
BUFFER_PAGES = 4_096  # for each core
KINDS = {
    f"{GROUP}:wants": "wants",
    f"{GROUP}:has__return": "has",
    f"{GROUP}:drops": "drops",
    "sched:sched_switch": "switch",
    "sched:sched_wakeup": "wakeup",
    "syscalls:sys_enter_sendmsg": "writes",
    "syscalls:sys_exit_sendmsg": "written",
}
_LINE = re.compile(r"\s*(\d+)/(-?\d+)\s+(\d+\.\d+):\s+(\S+):\s*(.*)")
_SWITCH = re.compile(r"prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+)")
_WAKEUP = re.compile(r"\bpid=(\d+)")


class NoTrace(Exception):
    """Nothing can be traced here; the text says why."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of one thread.

    Attributes:
        at_s: Time on the kernel's clock.
        pid: The thread's process; 0 where the kernel does not say.
        tid: The thread.
        kind: `wants`, `has` and `drops` are about the GIL, `on`, `off`, `preempted` and `woken`
            about a core, `writes` and `written` about a socket.
    """

    at_s: float
    pid: int
    tid: int
    kind: str


@contextlib.contextmanager
def probed() -> Generator[None]:
    """Add the probes to this interpreter's code, and remove them at the end.

    Yields:
        Nothing; other processes with the same interpreter are traced, too.

    Raises:
        NoTrace: perf(1), a right or a symbol is missing.
    """
    added = [word for probe in PROBES for word in ("--add", f"{GROUP}:{probe}")]
    _perf("probe", "--quiet", "--exec", str(interpreter_code()), *added)
    try:
        yield
    finally:
        _perf("probe", "--quiet", "--del", f"{GROUP}:*")


def trace(seconds: float) -> list[Event]:
    """Trace the whole machine for a while; call it within `probed`.

    Args:
        seconds: Duration.

    Returns:
        Events in order of time.

    Raises:
        NoTrace: perf(1) failed or has lost events.
    """
    events = [word for event in EVENTS for word in ("--event", event)]
    with tempfile.TemporaryDirectory(prefix="kprod-trace-") as directory:
        path = str(Path(directory) / "perf.data")
        how = ("--quiet", "--all-cpus", "--clockid", "mono", "--mmap-pages", str(BUFFER_PAGES))
        _perf("record", *how, *events, "--output", path, "sleep", str(seconds))
        fields = "pid,tid,time,event,trace"
        written = _perf("script", "--input", path, "--ns", "--show-lost-events", "--fields", fields)
    if "PERF_RECORD_LOST" in written:
        raise NoTrace("the machine is too busy: perf has lost events")
    return sorted(parsed(written), key=lambda event: event.at_s)


def parsed(written: str) -> Iterator[Event]:
    """Read what `perf script` wrote.

    Args:
        written: Lines of the fields pid, tid, time, event and trace.

    Yields:
        Events; two of each change of a core from one thread to another.
    """
    for line in written.splitlines():
        match = _LINE.match(line)
        if match is None or match[4] not in KINDS:
            continue
        pid, tid, at_s, kind = int(match[1]), int(match[2]), float(match[3]), KINDS[match[4]]
        if kind == "switch" and (switch := _SWITCH.search(match[5])):
            is_preempted = switch[2].startswith("R")
            # The line's own number is -1 for a thread that ends.
            yield Event(at_s, pid, int(switch[1]), "preempted" if is_preempted else "off")
            yield Event(at_s, 0, int(switch[3]), "on")
        elif kind == "wakeup" and (woken := _WAKEUP.search(match[5])):
            yield Event(at_s, 0, int(woken[1]), "woken")
        else:
            yield Event(at_s, pid, tid, kind)


def interpreter_code() -> Path:
    """Return the file with this interpreter's code: its library if it has one."""
    mapped = Path("/proc/self/maps").read_text("utf-8").split()
    found = next((path for path in mapped if "/libpython" in path), sys.executable)
    return Path(found).resolve()


def _perf(*arguments: str) -> str:
    try:
        run = subprocess.run(["perf", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoTrace("perf(1) is not installed") from error
    if run.returncode:
        raise NoTrace(f"perf {arguments[0]} failed; it needs root: {run.stderr.strip()}")
    return run.stdout
