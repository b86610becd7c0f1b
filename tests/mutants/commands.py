"""Commands that can be ended with all that they have started, one by one or all at once.

Each runs in a process group of its own: a test that hangs is ended with its children, and Ctrl-C
reaches this program alone, which then ends them all.

Thread-safety: any thread.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class Stopped(Exception):
    """The commands were told to stop."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Its exit code; None if it ran into the time limit.
        output: Its output, both streams interleaved.
    """

    code: int | None
    output: str


class Commands:
    """Runs commands.

    Args:
        limit_s: Longest time of one.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()  # guards: _running, _is_stopped
        self._running: set[int] = set()
        self._is_stopped = False

    def run(self, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> Ended:
        """Run a command to its end.

        Args:
            command: Program and arguments.
            directory: Working directory.
            environment: All of its variables.

        Returns:
            How it ended.

        Raises:
            Stopped: `stop` was called, before or meanwhile.
        """
        with self._lock:
            if self._is_stopped:
                raise Stopped
            child = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(child.pid)
        code: int | None = None
        try:
            output, _ = child.communicate(timeout=self._limit_s)
            code = child.returncode
        except subprocess.TimeoutExpired:
            _end_group(child.pid)
            output, _ = child.communicate()
        finally:
            with self._lock:
                self._running.discard(child.pid)
                is_stopped = self._is_stopped
            _end_group(child.pid)  # whatever it has left behind
        if is_stopped:
            raise Stopped
        return Ended(code, output)

    def stop(self) -> None:
        """End all that run, and start no more."""
        with self._lock:
            self._is_stopped = True
            for group in self._running:
                _end_group(group)


def _end_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
