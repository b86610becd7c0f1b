"""A pseudo-terminal with a command in its foreground, as a person has it."""

import contextlib
import os
import select
import shlex
import subprocess
import sys
from collections.abc import Generator, Sequence

LOOK_S = 0.05
LIMIT_S = 60.0  # ends a broken test, never its rhythm


class Terminal:
    """The person's side of a terminal.

    Attributes:
        process: The command.
        seen: Everything that the terminal has shown so far.
    """

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.seen = ""
        self._descriptor = descriptor

    def type(self, keys: str) -> None:
        """Press keys; Ctrl-C is the third character, Ctrl-D the fourth."""
        os.write(self._descriptor, keys.encode())

    def await_text(self, text: str) -> None:
        """Read until a text has been shown."""
        while text not in self.seen and self._read():
            pass
        assert text in self.seen, self.seen

    def look(self) -> None:
        """Take in the output of the next moment, if there is any."""
        if select.select([self._descriptor], [], [], LOOK_S)[0]:
            self.seen += os.read(self._descriptor, 65_536).decode(errors="replace")

    def await_end(self) -> int:
        """Read to the end, and return the exit code."""
        while self._read():
            pass
        return self.process.wait(LIMIT_S)

    def _read(self) -> bool:
        """Read the next output; False once the command has ended and everything was read."""
        for _ in range(int(LIMIT_S / LOOK_S)):
            has_ended = self.process.poll() is not None
            if select.select([self._descriptor], [], [], 0 if has_ended else LOOK_S)[0]:
                self.seen += os.read(self._descriptor, 65_536).decode(errors="replace")
                return True
            if has_ended:
                return False
        raise AssertionError(f"nothing more was shown after {self.seen!r}")


def terminal(
    arguments: Sequence[str], *, more: str = ""
) -> contextlib.AbstractContextManager[Terminal]:
    """Run `kprod` in a terminal.

    Args:
        arguments: Arguments as typed after `kprod`.
        more: Redirections of the shell, such as `2>/dev/null`.

    Returns:
        The terminal; the command is killed at the end, if it still runs.
    """
    return terminal_of([sys.executable, "-m", "kprod.cli", *arguments], more=more)


@contextlib.contextmanager
def terminal_of(words: Sequence[str], *, more: str = "") -> Generator[Terminal]:
    """Run any command in a terminal.

    Args:
        words: The command.
        more: Redirections of the shell.

    Yields:
        The terminal; the command is killed at the end, if it still runs.
    """
    ours, theirs = os.openpty()
    name = os.ttyname(theirs)
    # A session's leader gets the terminal that it opens first as its own: Ctrl-C then reaches it.
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {shlex.join(words)} <{name} >{name} 2>&1 {more}"],
        start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait(LIMIT_S)
        os.close(ours)
        os.close(theirs)  # open until now: the last output could be lost with its last holder
