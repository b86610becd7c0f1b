"""Threads that plant one fault after the other, each in a copy of the tree of its own.

The work is done in child processes, so threads suffice. A fault that is searched for by fuzzing
needs no copy: `tests.fuzz` has a sanitized build of its own, which it shares, so one at a time.

Thread-safety: one thread makes `Workers`, starts and stops them.
"""

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kprod.clock import SystemClock
from tests.mutants.commands import Commands, Stopped
from tests.mutants.kept import KeptResults, Mutant
from tests.mutants.planting import FOUND, NOT_FOUND, PlantedTree, copy_tree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one mutant.

    Attributes:
        name: Name of the mutant.
        outcome: `FOUND`, or why not.
        seconds: Duration; None if the result is an earlier run's.
    """

    name: str
    outcome: str
    seconds: float | None = None


class Workers:
    """Threads that take mutants from one queue and put results into another.

    Args:
        kept: Directory of kept results.
        commands: Runs what the workers need.
        place: A directory for the copies.
        logs: A directory for what failed wrote.
    """

    def __init__(self, kept: KeptResults, commands: Commands, place: Path, logs: Path) -> None:
        self._kept, self._commands = kept, commands
        self._place, self._logs = place, logs
        self._clock = SystemClock()
        self._waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        self._copy_lock = threading.Lock()  # guards: the making of the original
        self._fuzz_lock = threading.Lock()  # one at a time
        self._threads: list[threading.Thread] = []
        self._results: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()

    def start(self, mutants: Sequence[Mutant], jobs: int) -> None:
        """Let threads work through mutants.

        Args:
            mutants: In the order in which they are begun.
            jobs: How many threads, at least 1.
        """
        for mutant in mutants:
            self._waiting.put(mutant)
        for number in range(min(jobs, len(mutants))):
            thread = threading.Thread(target=self._work, args=(number,), name=f"mutants-{number}")
            self._threads.append(thread)
            thread.start()

    def next_result(self, timeout_s: float) -> Result | None:
        """Wait for what becomes of a mutant.

        Args:
            timeout_s: Longest wait.

        Returns:
            A result, each once; None if there is none in time.

        Raises:
            BaseException: The error that ended a worker too early.
        """
        try:
            result = self._results.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(result, BaseException):
            raise result
        return result

    def stop(self) -> None:
        """End what runs, and wait for the threads."""
        self._commands.stop()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        try:
            with contextlib.suppress(queue.Empty, Stopped):
                self._work_off(self._place / f"tree-{number}")
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._results.put(error)

    def _work_off(self, place: Path) -> None:
        tree: PlantedTree | None = None
        while True:
            mutant = self._waiting.get_nowait()
            if "fuzz" not in mutant and tree is None:
                tree = PlantedTree(self._original(), place, self._commands)
            self._results.put(self._run(mutant, tree))

    def _original(self) -> Path:
        with self._copy_lock:
            original = self._place / "original"
            if not original.exists():
                copy_tree(ROOT, original)
            return original

    def _run(self, mutant: Mutant, tree: PlantedTree | None) -> Result:
        name = mutant["name"]
        patch = HERE / f"{name}.patch"
        digest = self._kept.digest(mutant, patch)
        began_ms = self._clock.now_ms()
        if tree is None or "fuzz" in mutant:
            outcome, output = self._fuzz(mutant["fuzz"])
        else:
            outcome, output = tree.outcome(patch, mutant["test"])
        taken_s = (self._clock.now_ms() - began_ms) / 1_000
        if outcome == FOUND:
            self._kept.keep(name, digest, taken_s)
        self._log(name, "" if outcome == FOUND else output)
        return Result(name, outcome, taken_s)

    def _log(self, name: str, output: str) -> None:
        log = self._logs / f"{name}.log"
        if output:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(output, "utf-8")
        else:
            log.unlink(missing_ok=True)

    def _fuzz(self, target: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "tests.fuzz", "--target", target, "--planted-only"]
        with self._fuzz_lock:
            ended = self._commands.run(command, ROOT, os.environ)
        if ended.code is None:
            return "fuzzing takes too long", ended.output
        return NOT_FOUND if ended.code else FOUND, ended.output
