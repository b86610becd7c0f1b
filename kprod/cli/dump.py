"""`kprod dump`: prints the batches and records of segment files or a topic, as kafka-dump-log does.

Files are read in windows, so that memory use is that of a window and the largest entry, whatever
the segment's size. The faults of a log go to standard error, its contents to standard output.

Thread-safety: a command; runs once, in one thread.
Source: Kafka DumpLogSegments (tools 4.3.1) for fields and texts.
"""

import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

import click
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

from kprod.cli.connecting import (
    all_settings,
    client_config,
    complete_topic,
    connection_options,
    open_admin,
    open_reader,
)
from kprod.cli.dump_tables import TABLE_SUFFIXES, partition_files, print_table
from kprod.cli.progress_bar import ProgressBar
from kprod.cli.raw_log import raw_entries
from kprod.config import ClientConfig
from kprod.consumer.whole_topic import offset_ranges
from kprod.errors import CorruptRecord
from kprod.record.description import (
    RECORD_INDENT,
    as_json,
    as_text,
    describe_entry,
    describe_records,
)
from kprod.record.entries import LogEntry
from kprod.record.scan import LocatedEntry, LogScanner
from kprod.record.verification import LogVerifier
from kprod.wording import plural

WINDOW_BYTES = 4 * 1024 * 1024
# A bar for a shorter file would vanish before it could be seen.
PROGRESS_BYTES_MIN = 16 * 1024 * 1024
EXIT_DAMAGED = 1
STANDARD_INPUT = "-"


class DumpStyle(NamedTuple):
    """The output format of `kprod dump`.

    Attributes:
        deep: Print records, not only batches.
        as_json: Print one JSON object for each entry instead of text.
        verify: Check everything and count the faults.
    """

    deep: bool = False
    as_json: bool = False
    verify: bool = False


class DumpOptions(TypedDict):
    """The options of the command."""

    files: tuple[str, ...]
    topic: str | None
    bootstrap: str | None
    config: str | None
    setting: tuple[str, ...]
    partition: tuple[int, ...]
    deep: bool
    as_json: bool
    verify: bool


@click.command()
@click.argument(
    "files",
    nargs=-1,
    metavar="[FILE...]",
    type=click.Path(exists=True, allow_dash=True),
)
@click.option("--topic", "-t", help="Read a topic instead of files.", shell_complete=complete_topic)
@connection_options
@click.option(
    "--partition",
    "-p",
    type=click.IntRange(min=0),
    multiple=True,
    help="Partition of the topic; all by default.",
)
@click.option("--deep", is_flag=True, help="Print the records of each batch too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per batch.")
@click.option(
    "--verify",
    is_flag=True,
    help="Check checksums, structure and offsets; exit with 1 if anything is wrong.",
)
def dump(**options: Unpack[DumpOptions]) -> int:
    """Print the batches in log segments of any record format, or in a topic.

    FILE is a segment of a broker's log (00000000000000000000.log), an index of it, a snapshot of
    producers, a partition's directory, or - for standard input. Fields are those of kafka-dump-log.
    The exit code is 1 when a log cannot be followed to its end.
    \f

    Returns:
        The exit code.

    Raises:
        UsageError: Neither files nor a topic with its brokers were named, or both.
    """  # noqa: D301 - click ends the help at \f
    style = DumpStyle(deep=options["deep"], as_json=options["as_json"], verify=options["verify"])
    files, topic = options["files"], options["topic"]
    if bool(files) == bool(topic):
        raise click.UsageError("name either files or a --topic")
    if topic is None:
        sound = [_print_path(name, style) for name in files]
    else:
        with open_admin(client_config(options)) as admin:
            admin.connect()  # fail immediately if the cluster is unreachable
        settings = all_settings(options, ClientConfig)
        sound = dump_topic(settings, topic, options["partition"], style=style)
    return 0 if all(sound) else EXIT_DAMAGED


def _print_path(name: str, style: DumpStyle) -> bool:
    path = Path(name)
    if name != STANDARD_INPUT and path.is_dir():
        files = partition_files(path)
        if not files:
            raise click.UsageError(f"{name} has no segment: name the directory of one partition")
        sound = [_print_path(str(it), style) for it in files]
        return all(sound)
    if path.suffix in TABLE_SUFFIXES:
        return print_table(path, as_json=style.as_json, verify=style.verify)
    return LogPrinter(name, style).print_log(_windows(name))


def dump_topic(
    settings: Mapping[str, object], topic: str, partitions: Sequence[int], *, style: DumpStyle
) -> list[bool]:
    """Print the partitions of a topic one after another.

    Args:
        settings: The client settings.
        topic: Name of an existing topic.
        partitions: The partitions to print; all if empty.
        style: The output form.

    Returns:
        For each partition, the result of `LogPrinter.print_entries`.

    Raises:
        KprodError: The topic cannot be read.
    """
    sound = []
    with open_reader(settings) as consumer:
        for key, (start, end) in offset_ranges(consumer, topic, partitions or None).items():
            printer = LogPrinter(f"{topic}-{key.partition}", style)
            entries = raw_entries(consumer, key, start, end)
            sound.append(printer.print_entries(_located(entries)))
    return sound


def _located(entries: Iterator[LogEntry]) -> Iterator[LocatedEntry]:
    """Number positions from the first entry on; a topic's reader does not know the real ones."""
    position = 0
    for entry in entries:
        yield LocatedEntry(position, entry)
        position += entry.size_bytes


class LogPrinter:
    """Prints one log and its faults.

    Args:
        name: The log's name: its file name, or topic and partition.
        style: The output form.
    """

    __slots__ = ("_name", "_out", "_problem_count", "_style", "_verifier")

    def __init__(self, name: str, style: DumpStyle) -> None:
        self._name = name
        self._style = style
        self._verifier = LogVerifier()
        self._problem_count = 0
        self._out = sys.stdout
        if isinstance(self._out, io.TextIOWrapper):
            # Records may contain characters that the terminal's encoding lacks.
            self._out.reconfigure(errors="backslashreplace")

    def print_log(self, pieces: Iterable[bytes]) -> bool:
        """Print a segment.

        Args:
            pieces: The segment's bytes, in order.

        Returns:
            True if the log was read to the end and, with `verify`, has no fault.
        """
        scanner = LogScanner()
        return self.print_entries(
            (located for piece in pieces for located in scanner.feed(piece)), scanner
        )

    def print_entries(
        self, entries: Iterator[LocatedEntry], scanner: LogScanner | None = None
    ) -> bool:
        """Print a log.

        Args:
            entries: The entries, in order.
            scanner: The source of the entries, which knows the remaining bytes.

        Returns:
            True if it was read to the end and, with `verify`, has no fault.
        """
        entry_count = 0
        position = 0
        self._print_head()
        try:
            for located in entries:
                entry_count += 1
                position = located.position + located.entry.size_bytes
                self._print_entry(located)
        except CorruptRecord as error:
            self._complain(position, str(error))
            return False
        if scanner is not None:
            self._print_tail(scanner)
        if self._style.verify:
            summary = (
                f"{entry_count:,} {plural(entry_count, 'entry', 'entries')},"
                f" {self._problem_count:,} {plural(self._problem_count, 'problem')}"
            )
            click.echo(f"{self._name}: {summary}", err=True)
        return self._problem_count == 0

    def _print_head(self) -> None:
        """Print the log's name; a segment's name is its first offset."""
        if self._style.as_json:
            return
        self._out.write(f"Dumping {self._name}\n")
        stem = Path(self._name).stem
        if stem.isdecimal():
            self._out.write(f"Log starting offset: {int(stem)}\n")

    def _print_entry(self, located: LocatedEntry) -> None:
        problems = list(self._verifier.problems(located.entry)) if self._style.verify else []
        try:
            if self._style.as_json:
                self._print_json(located)
            else:
                self._print_text(located)
        except CorruptRecord as error:
            # Only the records of this batch are unreadable; the following entries are readable.
            problems = problems or [str(error)]
        for problem in problems:
            self._complain(located.position, problem)

    def _print_text(self, located: LocatedEntry) -> None:
        self._out.write(as_text(describe_entry(*located)) + "\n")
        if self._style.deep:
            for fields in describe_records(located.entry):
                self._out.write(f"{RECORD_INDENT}{as_text(fields)}\n")

    def _print_json(self, located: LocatedEntry) -> None:
        line = {"log": self._name} | as_json(describe_entry(*located))
        records: list[dict[str, object]] = []
        try:
            if self._style.deep:
                line["records"] = records
                records.extend(as_json(fields) for fields in describe_records(located.entry))
        finally:
            self._out.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _print_tail(self, scanner: LogScanner) -> None:
        """Report the bytes after the last entry, which a broker is writing or left incomplete."""
        if not scanner.trailing_bytes:
            return
        if not self._style.as_json:
            self._out.write(
                f"Found {scanner.trailing_bytes} invalid bytes at the end of {self._name}\n"
            )
        if self._style.verify:
            self._complain(scanner.position, f"{scanner.trailing_bytes} bytes of a cut-off entry")

    def _complain(self, position: int, problem: str) -> None:
        self._problem_count += 1
        self._out.flush()
        click.echo(f"{self._name}: position {position}: {problem}", err=True)


def _windows(name: str) -> Iterator[bytes]:
    """Read a file in pieces, with a progress bar if it is long and standard error is a terminal."""
    size_bytes = 0 if name == STANDARD_INPUT else Path(name).stat().st_size
    progress = ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        is_wanted=size_bytes >= PROGRESS_BYTES_MIN and not sys.stdout.isatty(),
    )
    with progress, click.open_file(name, "rb") as stream:
        # A full path would leave no space for the bar.
        task = progress.add_task(Path(name).name, total=size_bytes)
        while piece := stream.read(WINDOW_BYTES):
            yield piece
            progress.advance(task, len(piece))
