"""One Kafka process of the tests: started, signalled, awaited, and read when it fails.

Source: Kafka 4.3.1; signal(7).
"""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path


class KafkaFailedError(Exception):
    """A node or a tool failed, or was not ready in time; the text holds the end of its log."""


class KafkaNode:
    """One Java process with its directory, which it keeps over restarts.

    Thread-safety: one thread.
    """

    __slots__ = ("_process", "command", "directory", "is_frozen", "node_id")

    def __init__(self, node_id: int, directory: Path, command: Sequence[str]) -> None:
        """Describe a node; nothing runs yet.

        Args:
            node_id: Brokers from 1 up, or `CONTROLLER_ID`.
            directory: Its own, with `node.properties`.
            command: Starts it.
        """
        self.node_id = node_id
        self.directory = directory
        self.command = tuple(command)
        self.is_frozen = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the running broker; None if none runs."""
        return (
            None if self._process is None or self._process.poll() is not None else self._process.pid
        )

    def start(self) -> None:
        """Start the process; it is not ready yet."""
        with (self.directory / "node.out").open("ab") as out:
            # A session of its own: Ctrl-C is for us, and we stop the nodes.
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; a node that has ended is left alone."""
        if self._process is not None:
            self._process.send_signal(number)
        self.is_frozen = number == signal.SIGSTOP

    def await_end(self, timeout_s: float) -> None:
        """Wait until the process has ended; kill it when the time is over."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def pause_while_alive(self, seconds: float) -> bool:
        """Let time pass, but not past the end of the process.

        Args:
            seconds: How much.

        Returns:
            Whether it still runs.
        """
        if self._process is None:
            return False
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def peak_memory_bytes(self) -> int:
        """Read the largest resident size of the running process so far (Linux only).

        Returns:
            VmHWM; `ru_maxrss` would count this process's size before exec.
        """
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields["VmHWM"].split()[0]) << 10

    def log_tail(self, line_count: int = 40) -> str:
        """Read the end of what the node logged and wrote.

        Args:
            line_count: Number of lines of each of the two files.

        Returns:
            Text for an error message.
        """
        parts = []
        for path in (self.directory / "node.log", self.directory / "node.out"):
            lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
            parts.append(
                "\n".join((f"--- {path.name} of node {self.node_id}", *lines[-line_count:]))
            )
        return "\n".join(parts)
