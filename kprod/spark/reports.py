"""Reports of committed writes, in a file on the driver's machine: one line of JSON each.

Spark does not let a data source return a result from `save()`, and its commit runs in another
process. A file that the user names is available to him, even after the job.

Thread-safety: a line is appended by one write, so that several jobs may share a file.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from kprod.spark.task_messages import WriteReport

__all__ = ["ReportTail", "append_report", "last_write", "writes"]


def append_report(path: str | os.PathLike[str], report: WriteReport) -> None:
    """Write down one report.

    Args:
        path: The file; made if it is not there.
        report: The report of the write.

    Raises:
        OSError: It cannot be written to.
    """
    with Path(path).open("ab", buffering=0) as file:
        file.write(f"{report.to_json()}\n".encode())


def writes(path: str | os.PathLike[str]) -> Iterator[WriteReport]:
    """Read every report of a file, oldest first.

    Args:
        path: Path in the option `report.path`.

    Yields:
        One report per committed write; none where there is no file yet.

    Raises:
        ValueError: The file holds something else.
    """
    if not Path(path).exists():
        return
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            yield WriteReport.from_json(line)


class ReportTail:
    """Reads the reports added to a file since the last call.

    Args:
        path: Path in the option `report.path`; it may not exist yet.

    Thread-safety: one thread at a time.
    """

    __slots__ = ("_offset", "_path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._offset = 0

    def new(self) -> list[WriteReport]:
        """Return the reports that are new, oldest first.

        Raises:
            ValueError: The file holds something else.
        """
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            if self._offset > file.seek(0, os.SEEK_END):
                self._offset = 0  # the file was replaced by a new one
            file.seek(self._offset)
            whole, _, _ = file.read().rpartition(b"\n")  # the last line may be half written
        lines = whole.decode().splitlines()
        reports = [WriteReport.from_json(line) for line in lines]
        self._offset += len(whole) + bool(lines)
        return reports


def last_write(path: str | os.PathLike[str]) -> WriteReport | None:
    """Read the report of the last committed write.

    Args:
        path: Path in the option `report.path`.

    Returns:
        It; None before the first commit.

    Raises:
        ValueError: The file holds something else.
    """
    last = None
    for report in writes(path):
        last = report
    return last
