"""Java programs of the Kafka jars, run one at a time.

Thread-safety: any thread; nothing is kept.

Source: Kafka 4.3.1, org.apache.kafka.tools.DumpLogSegments, kafka.tools.StorageTool.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_node import KafkaFailedError
from tests.plugins.kafka_settings import QUICK_JAVA, java_command

TOOL_TIMEOUT_S = 120.0


class KafkaTools:
    """Runs classes of the jars."""

    __slots__ = ("_artifacts", "_java_flags")

    def __init__(self, artifacts: Artifacts, java_flags: Sequence[str] = QUICK_JAVA) -> None:
        """Choose jars and flags.

        Args:
            artifacts: Jars and Java.
            java_flags: Flags of the virtual machine.
        """
        self._artifacts = artifacts
        self._java_flags = tuple(java_flags)

    def java(self, *, log: Path | None) -> list[str]:
        """Put together the start of a command, all but the class and its arguments.

        Args:
            log: File for slf4j's messages; None drops them.

        Returns:
            The program and its options.
        """
        archive = self._artifacts.class_data_archive
        shared = (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable") if archive.exists() else ()
        flags = (*self._java_flags, *shared)
        return java_command(self._artifacts.java, self._artifacts.class_path, flags=flags, log=log)

    def run(self, class_name: str, *arguments: str, timeout_s: float = TOOL_TIMEOUT_S) -> str:
        """Run one program to its end.

        Args:
            class_name: With its package.
            arguments: Its own.
            timeout_s: Longest run; it is killed after it.

        Returns:
            The program's standard output.

        Raises:
            KafkaFailedError: It gave an exit code other than 0.
        """
        command = [*self.java(log=None), class_name, *arguments]
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if run.returncode != 0:
            said = (run.stdout + run.stderr)[-3000:]
            raise KafkaFailedError(f"{class_name} gave exit code {run.returncode}:\n{said}")
        return run.stdout

    def dump_log_segments(self, paths: Sequence[Path]) -> str:
        """Check and print whole batches with their records.

        Args:
            paths: Segments of one partition, in the order of their offsets.

        Returns:
            A line for each batch, with `isvalid: true` or false, and for each of its records.
        """
        files = ",".join(map(str, paths))
        arguments = ("--deep-iteration", "--print-data-log", "--files", files)
        return self.run("org.apache.kafka.tools.DumpLogSegments", *arguments)
