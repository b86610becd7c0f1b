"""A run of `kprod produce`: records are handed over one by one, and their outcomes counted.

Thread-safety: delivery callbacks count on the producer's thread, and the counts are read when the
producer is closed.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import click

from kprod.cli.json_lines import LineRecord
from kprod.errors import KprodError, RecordTooLarge
from kprod.model import RecordMetadata
from kprod.wording import plural

EXIT_FAILED = 1
# What shells report for a command ended by SIGINT.
EXIT_INTERRUPTED = 130
# More kinds of errors than this would hide the first.
ERRORS_SHOWN_MAX = 5
# Texts with an offset or a time in them all differ: more of them are counted as one.
_ERRORS_KEPT_MAX = 1_000
_FURTHER = "further errors"

Delivered = Callable[[RecordMetadata | None, KprodError | None], object]
Headers = list[tuple[str, bytes | None]]


class SendingProducer(Protocol):
    """The part of a producer that is used."""

    def send(  # noqa: PLR0913 - as the producer has it
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Delivered | None = None,
    ) -> object:
        """Hand a record over."""

    def flush(self, timeout: float | None = None) -> int:
        """Wait for the records handed over."""

    def close(self, timeout: float | None = None) -> int:
        """Flush and end."""


class RecordFormat(Protocol):
    """How a line becomes a record."""

    def parse(self, line: bytes) -> LineRecord:
        """Read a line; raises ValueError where it is malformed."""


class Target(NamedTuple):
    """Where records go, and what they have in common.

    Attributes:
        topic: Wins over the line's; None leaves it to the lines.
        partition: Wins over the line's; None leaves it to the lines.
        headers: Added to those of the line.
        ignores_partitions: Whether the key chooses, though a line names a partition.
    """

    topic: str | None
    partition: int | None
    headers: Headers
    ignores_partitions: bool = False


class ProduceRun:
    """Sends lines and counts what becomes of them.

    Args:
        producer: Closed at the end of the run.
        target: Where records go.
        line_format: How a line becomes a record.
        advance: Called after each record that was handed over.
    """

    __slots__ = (
        "_advance",
        "_delivered_count",
        "_errors",
        "_handed_count",
        "_line_format",
        "_producer",
        "_target",
    )

    def __init__(
        self,
        producer: SendingProducer,
        target: Target,
        line_format: RecordFormat,
        advance: Callable[[], object] = lambda: None,
    ) -> None:
        self._producer = producer
        self._target = target
        self._line_format = line_format
        self._handed_count = 0
        self._delivered_count = 0
        self._advance = advance
        self._errors: dict[str, int] = {}

    def run(self, lines: Iterable[bytes], *, flush_timeout_s: float) -> int:
        """Send all lines, and report.

        Args:
            lines: Without delimiters.
            flush_timeout_s: How long an interrupted run waits for the records handed over.

        Returns:
            The exit code.

        Raises:
            SystemExit: That ended the run.
        """
        try:
            self._send_all(lines)
            # A close that is interrupted gives up; a flush can be begun again, with a limit.
            self._producer.flush()
            self._producer.close()
        except KeyboardInterrupt:
            self._flush_interrupted(flush_timeout_s)
            self._report()
            return EXIT_INTERRUPTED
        except SystemExit:
            self._flush_interrupted(flush_timeout_s)
            self._report()
            raise
        return self._report()

    def _send_all(self, lines: Iterable[bytes]) -> None:
        """Send until the lines end, or an error that the next record would meet as well."""
        try:
            for number, line in enumerate(lines, start=1):
                self._send_line(number, line)
        except (KprodError, ValueError, OSError) as error:
            self._note(str(error))

    def _send_line(self, number: int, line: bytes) -> None:
        try:
            record = self._record(line)
        except ValueError as error:
            self._note(f"line {number} {error}")
        else:
            self._send(record)

    def _record(self, line: bytes) -> LineRecord:
        record = self._line_format.parse(line)
        if self._target.topic is None and record.topic is None:
            raise ValueError("names no topic, and there is no --topic")
        return record

    def _send(self, record: LineRecord) -> None:
        target = self._target
        partition = None if target.ignores_partitions else record.partition
        try:
            self._producer.send(
                target.topic if target.topic is not None else record.topic or "",
                record.value,
                key=record.key,
                headers=[*record.headers, *target.headers],
                partition=partition if target.partition is None else target.partition,
                timestamp_ms=record.timestamp_ms,
                on_delivery=self._count,
            )
        except RecordTooLarge as error:
            self._note(str(error))
        else:
            self._handed_count += 1
            self._advance()

    def _note(self, text: str) -> None:
        if text not in self._errors and len(self._errors) >= _ERRORS_KEPT_MAX:
            text = _FURTHER
        self._errors[text] = self._errors.get(text, 0) + 1

    def _count(self, _: RecordMetadata | None, error: KprodError | None) -> None:
        if error is None:
            self._delivered_count += 1
        else:
            self._note(str(error))

    def _flush_interrupted(self, timeout_s: float) -> None:
        click.echo(f"interrupted: flushing for up to {timeout_s:g} s, Ctrl-C gives up", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            self._producer.flush(timeout_s)
        self._producer.close(0)

    def _report(self) -> int:
        """Say what became of the records; return the exit code."""
        by_count = sorted(self._errors.items(), key=lambda it: -it[1])
        for text, count in by_count[:ERRORS_SHOWN_MAX]:
            click.echo(f"{count:,} × {text}", err=True)
        failed_count = sum(self._errors.values())
        unknown_count = max(self._handed_count - self._delivered_count - failed_count, 0)
        summary = (
            f"{self._delivered_count:,} {plural(self._delivered_count, 'record')} delivered,"
            f" {failed_count:,} failed"
        )
        if unknown_count:
            summary += f", {unknown_count:,} given up"
        click.echo(summary, err=True)
        return EXIT_FAILED if failed_count or unknown_count else 0
