"""The input of `kprod produce`: lines or whole files, with progress display.

A progress bar is shown on standard error if that is a terminal and the input is not typed.

Thread-safety: the main thread.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Self

import click
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

from kprod.cli import lines
from kprod.cli.lines import split_lines
from kprod.cli.progress_bar import ProgressBar
from kprod.errors import RecordTooLarge

STANDARD_INPUT = "-"
_STEP_RECORDS = 1_000  # records between two updates of the count

Advance = Callable[[], object]
Watched = tuple[Iterator[bytes], Advance]


@contextlib.contextmanager
def watched_lines(files: Sequence[str], delimiter: bytes) -> Generator[Watched]:
    """Read the lines of files, one after the other.

    Args:
        files: File names, or `-` for standard input.
        delimiter: The line delimiter.

    Yields:
        The lines, and a function to call after each record.
    """
    with _Progress(files) as progress:

        def read_all() -> Iterator[bytes]:
            for name in files:
                with click.open_file(name, "rb") as stream:
                    # `read1` returns a line of a terminal without waiting for more.
                    read = progress.watching(getattr(stream, "read1", stream.read))
                    yield from split_lines(read, delimiter)

        yield read_all(), progress.count_record


@contextlib.contextmanager
def watched_files(files: Sequence[str]) -> Generator[Watched]:
    """Read files as one record each.

    Args:
        files: File names, or `-` for standard input.

    Yields:
        The contents, and a function to call after each record.
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
    """A progress bar over all files, or a count if the input's size is unknown."""

    __slots__ = ("_bar", "_record_count", "_task")

    def __init__(self, files: Sequence[str]) -> None:
        is_typed = STANDARD_INPUT in files and sys.stdin.isatty()
        self._record_count = 0
        self._bar = ProgressBar(
            TextColumn("sent: {task.fields[records]:,}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            is_wanted=not is_typed,
        )
        sizes = None if STANDARD_INPUT in files else sum(Path(it).stat().st_size for it in files)
        self._task = self._bar.add_task("", total=sizes, records=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def watching(self, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """Wrap a read function, so that each piece advances the bar."""

        def read_on(size: int) -> bytes:
            piece = read(size)
            self._bar.advance(self._task, len(piece))
            return piece

        return read_on

    def count_record(self) -> None:
        """Count a sent record."""
        self._record_count += 1
        if self._record_count % _STEP_RECORDS == 0:
            self._bar.update(self._task, records=self._record_count)
