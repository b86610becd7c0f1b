"""Kills parts of a running query: a worker, an executor, a broker, the driver or a worker of it.

Executors start the workers of tasks again; the one that commits for the driver ends the query.

All processes of a Spark program are of its session, workers too, which have groups of their own.
"""

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

EXECUTOR = "CoarseGrainedExecutorBackend"
DAEMON = "pyspark.daemon"
TASKS_DAEMON = f"{DAEMON} pyspark.worker"
_SESSION_FIELD = 3  # in /proc/PID/stat, after the command


def processes_of(session: int) -> Iterator[tuple[int, str]]:
    """Find the processes of a session.

    Args:
        session: The process that began it.

    Yields:
        Number and command line of each.
    """
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            if int(fields[_SESSION_FIELD]) == session:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                yield int(entry.name), command.decode(errors="replace")


def workers_of(session: int) -> list[int]:
    """Return the Python workers of a session's executors."""
    daemons = {pid for pid, command in processes_of(session) if TASKS_DAEMON in command}
    return [pid for pid in daemons if _parent_of(pid) in daemons]


def interpreter_of(pid: int) -> str:
    """Return the interpreter of a process, as its command names it."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


def kill_worker(session: int, rng: random.Random) -> bool:
    """Kill a Python worker of an executor; return whether there was one."""
    return _kill_one(workers_of(session), rng)


def kill_drivers_worker(session: int, rng: random.Random) -> bool:
    """Kill a Python worker that plans or commits for the driver; return whether there was one."""
    daemons = {
        pid
        for pid, command in processes_of(session)
        if DAEMON in command and TASKS_DAEMON not in command
    }
    return _kill_one([pid for pid in daemons if _parent_of(pid) in daemons], rng)


def kill_executor(session: int, rng: random.Random) -> bool:
    """Kill the Java process of an executor; return whether there was one."""
    executors = [pid for pid, command in processes_of(session) if EXECUTOR in command]
    return _kill_one(executors, rng)


def kill_all(session: int) -> None:
    """Kill every process of a session, as a power cut would."""
    for pid, _ in list(processes_of(session)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def in_turn(*accidents: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Yield each again and again."""
    while True:
        yield from accidents


def _kill_one(pids: list[int], rng: random.Random) -> bool:
    with contextlib.suppress(ProcessLookupError, IndexError):
        os.kill(rng.choice(sorted(pids)), signal.SIGKILL)
        return True
    return False


def _parent_of(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    return 0
