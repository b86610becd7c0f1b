"""Runs Spark programs of the tests in processes of their own.

A session holds threads, sockets and a Java process as long as its process lives, and warns of much;
so the tests' own process has none. A program writes what it found as JSON.
"""

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.kafka_artifacts import KafkaUnavailableError, find_java

ROOT = Path(__file__).resolve().parent.parent.parent
JOB = "tests.spark.job"
REQUIRE = "KPROD_REQUIRE_KAFKA"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Fewer compilations: a driver that lives for a minute gains nothing from more."""


class SparkProgramError(Exception):
    """A program of the tests failed; the text is the end of what it said."""


@functools.cache
def java_problem() -> str | None:
    """Return why no Spark can run here, or None."""
    try:
        find_java()
    except KafkaUnavailableError as error:
        return str(error)
    return None


def need_spark() -> None:
    """Skip the test where Spark cannot run, or fail it where it must."""
    problem = java_problem()
    if problem is not None and os.environ.get(REQUIRE) == "1":
        pytest.fail(problem)
    if problem is not None:
        pytest.skip(f"Spark needs Java: {problem}")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a program's environment: this interpreter everywhere, and this tree."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": JAVA_OPTIONS,
        **(more or {}),
    }


class SparkProgram:
    """One run of `tests.spark.job`.

    Thread-safety: one thread.
    """

    __slots__ = ("_log", "_out", "_process", "directory")

    def __init__(
        self,
        directory: Path,
        arguments: Sequence[str],
        more: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        """Start it.

        Args:
            directory: Its own: log, results, and what Spark writes.
            arguments: Arguments of the program.
            more: Added to its environment.
            python: Its interpreter.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._log = directory / "log"
        self._out = directory / "out.json"
        with self._log.open("wb") as log:
            # A session of its own, so that everything it starts can be ended with it.
            self._process = subprocess.Popen(
                [python, "-m", JOB, "--out", str(self._out), *arguments],
                cwd=directory,
                env=environment(more),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def result(self, timeout_s: float) -> dict[str, Any]:
        """Wait for its end.

        Args:
            timeout_s: Seconds; after them it is killed.

        Returns:
            Findings by scene.

        Raises:
            SparkProgramError: It failed or did not end.
        """
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SparkProgramError(f"no end in {timeout_s} s:\n{self.log_tail()}") from None
        self._sweep()
        if code != 0:
            raise SparkProgramError(f"exit code {code}:\n{self.log_tail()}")
        results: dict[str, Any] = json.loads(self._out.read_text("utf-8"))
        return results

    def has_ended(self, within_s: float) -> bool:
        """Whether it ends within this number of seconds."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def pid(self) -> int:
        """The process, which is also its session and its group."""
        return self._process.pid

    def kill(self) -> None:
        """End it and all that it started, as a power cut would."""
        self._sweep()
        self._process.wait()

    def log_tail(self) -> str:
        """Return the end of what it said."""
        return self._log.read_text("utf-8", "replace")[-6_000:]

    def _sweep(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def run_job(
    directory: Path,
    *arguments: str,
    timeout_s: float = 800,
    more: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Run `tests.spark.job` to its end.

    Args:
        directory: Its own.
        arguments: Arguments of the program.
        timeout_s: Seconds that it may take.
        more: Added to its environment.
        python: Its interpreter.

    Returns:
        Findings of each scene.
    """
    need_spark()
    return SparkProgram(directory, arguments, more, python).result(timeout_s)
