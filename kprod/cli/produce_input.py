"""The input of `kprod produce`: lines or whole files, and how far it has been read.

A bar is shown on standard error where that is a terminal, and where nobody is typing the input.

Thread-safety: the main thread.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from kprod.cli import lines
from kprod.cli.lines import split_lines
from kprod.errors import RecordTooLarge

STANDARD_INPUT = "-"
_STEP_RECORDS = 1_000  # between two movements of the count

Advance = Callable[[], object]
Watched = tuple[Iterator[bytes], Advance]


@contextlib.contextmanager
def watched_lines(files: Sequence[str], delimiter: bytes) -> Generator[Watched]:
    """Read the lines of files, one file after the other.

    Args:
        files: Names, or `-` for standard input.
        delimiter: What ends a line.

    Yields:
        Lines, read as they come; and a function to call after each record.
    """
    with _Progress(files) as progress:

        def read_all() -> Iterator[bytes]:
            for name in files:
                with click.open_file(name, "rb") as stream:
                    # `read1` does not wait for more than a terminal's line.
                    read = progress.watching(getattr(stream, "read1", stream.read))
                    yield from split_lines(read, delimiter)

        yield read_all(), progress.count_record


@contextlib.contextmanager
def watched_files(files: Sequence[str]) -> Generator[Watched]:
    """Read files as one record each.

    Args:
        files: Names, or `-` for standard input.

    Yields:
        Contents; and a function to call after each record.
    """
    with _Progress(files) as progress:

        def read_all() -> Iterator[bytes]:
            for name in files:
                with click.open_file(name, "rb") as stream:
                    content = progress.watching(stream.read)(lines.LINE_BYTES_MAX + 1)
                if len(content) > lines.LINE_BYTES_MAX:
                    raise RecordTooLarge(f"{name} has more than {lines.LINE_BYTES_MAX} bytes")
                yield content

        yield read_all(), progress.count_record


class _Progress:
    """A bar over all files, or a count where the input has no end yet."""

    __slots__ = ("_bar", "_record_count", "_task")

    def __init__(self, files: Sequence[str]) -> None:
        is_typed = STANDARD_INPUT in files and sys.stdin.isatty()
        console = Console(stderr=True)
        self._record_count = 0
        self._bar = Progress(
            TextColumn("sent: {task.fields[records]:,}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=console,
            transient=True,
            disable=is_typed or not console.is_terminal,
        )
        sizes = None if STANDARD_INPUT in files else sum(Path(it).stat().st_size for it in files)
        self._task = self._bar.add_task("", total=sizes, records=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def watching(self, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """Return the reader, which moves the bar with each piece."""

        def read_on(size: int) -> bytes:
            piece = read(size)
            self._bar.advance(self._task, len(piece))
            return piece

        return read_on

    def count_record(self) -> None:
        """Count a record that was handed over."""
        self._record_count += 1
        if self._record_count % _STEP_RECORDS == 0:
            self._bar.update(self._task, records=self._record_count)
