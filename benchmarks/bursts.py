"""Runs of several clients in turn: each has a process that stays, and works in short bursts.

Shared machines change their speed by half from second to second, so that two runs of some seconds
compare the seconds. Bursts of a tenth of a second, in turn, meet the same ones.

Thread-safety: one thread, the caller's.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from subprocess import CompletedProcess
from typing import IO, Self

from measure import printed_figures

END_S = 60.0


def bursts_asked_for() -> Iterator[int]:
    """Yield the size of each burst in a child; the one before is over when the next is asked for.

    Yields:
        Sizes, which its parent chooses.
    """
    print(flush=True)  # ready
    for line in sys.stdin:
        yield int(line)
        print(flush=True)


class BurstRounds:
    """Rounds in which all contestants work in turn."""

    def __init__(self, commands: Mapping[str, Sequence[str]], *, bursts: int, size: int) -> None:
        """Describe the rounds.

        Args:
            commands: For each contestant the arguments after the interpreter; its program takes
                its work from `bursts_asked_for`, limits its waits, and prints a JSON object.
            bursts: Number of bursts of each in a round.
            size: Size of each burst.
        """
        self._commands = commands
        self._bursts = bursts
        self._size = size
        self._found: dict[str, Mapping[str, float]] = {}

    def next_figures(self, name: str) -> Mapping[str, float]:
        """Return a contestant's figures of a round that it has not been asked for.

        Args:
            name: The contestant.

        Returns:
            The figures that its program printed.

        Raises:
            RuntimeError: As for `run`.
        """
        if name not in self._found:
            self._found = self.run()
        return self._found.pop(name)

    def run(self) -> dict[str, Mapping[str, float]]:
        """Run a round.

        Returns:
            Each contestant's figures.

        Raises:
            RuntimeError: A child failed, or printed no figures; with the end of what it said.
        """
        with ExitStack() as stack:
            children = [
                stack.enter_context(_Child(name, command, stack.enter_context(_errors())))
                for name, command in self._commands.items()
            ]
            for child in children:
                child.wait()
            for _ in range(self._bursts):
                for child in children:
                    child.ask(self._size)
                    child.wait()
            return {child.name: child.figures() for child in children}


def _errors() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8")  # a pipe that nobody reads could fill


class _Child:
    """One contestant's process."""

    def __init__(self, name: str, command: Sequence[str], errors: IO[str]) -> None:
        self.name = name
        self._errors = errors
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):  # a size that it has not read
            self._input.close()
        self._output.close()

    def ask(self, size: int) -> None:
        """Have it do a burst; `wait` raises if it has ended."""
        with suppress(BrokenPipeError):
            print(size, file=self._input, flush=True)

    def wait(self) -> None:
        """Wait until it is ready, or the burst is over."""
        line = self._output.readline()
        if line != "\n":
            self.figures(line)
            raise RuntimeError(f"{self.name} printed {line!r} in the place of an empty line")

    def figures(self, begin: str = "") -> Mapping[str, float]:
        """Let it end, and read its figures; `begin` has been read already."""
        with suppress(BrokenPipeError):
            self._input.close()
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{self.name} has not ended after its last burst") from error
        self._errors.seek(0)
        output, errors = begin + self._output.read(), self._errors.read()
        return printed_figures(CompletedProcess(self._process.args, code, output, errors))
