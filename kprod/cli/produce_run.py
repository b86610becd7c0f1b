"""A run of `kprod produce`: sends records one by one and counts their outcomes.

Thread-safety: delivery callbacks count on the producer's thread; the counts are read after the
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
# The shells' exit code for a command ended by SIGINT.
EXIT_INTERRUPTED = 130
# Showing more kinds of errors would scroll the first one away.
ERRORS_SHOWN_MAX = 5
# Error texts that contain an offset or a time all differ; further ones are counted together.
_ERRORS_KEPT_MAX = 1_000
_FURTHER = "further errors"

Delivered = Callable[[RecordMetadata | None, KprodError | None], object]
Headers = list[tuple[str, bytes | None]]


class SendingProducer(Protocol):
    """The methods of a producer that are used here."""

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
        """Send a record."""

    def flush(self, timeout: float | None = None) -> int:
        """Wait for all sent records."""

    def close(self, timeout: float | None = None) -> int:
        """Flush and close."""


class RecordFormat(Protocol):
    """A format of input lines."""

    def parse(self, line: bytes) -> LineRecord:
        """Parse a line; raises ValueError if it is malformed."""


class Target(NamedTuple):
    """The destination of all records, and their common headers.

    Attributes:
        topic: Overrides the line's topic; None uses the line's.
        partition: Overrides the line's partition; None uses the line's.
        headers: Headers added to the line's.
        ignores_partitions: Whether to ignore the line's partition, so that the key chooses it.
    """

    topic: str | None
    partition: int | None
    headers: Headers
    ignores_partitions: bool = False


class ProduceRun:
    """Sends lines and counts their outcomes.

    Args:
        producer: The producer; closed at the end of the run.
        target: The destination of the records.
        line_format: Parses the lines.
        advance: Called after each sent record.
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
        """Send all lines and report the result.

        Args:
            lines: The lines, without delimiters.
            flush_timeout_s: Time limit for flushing after an interruption.

        Returns:
            The exit code.

        Raises:
            SystemExit: The run was ended by it.
        """
        try:
            self._send_all(lines)
            # An interrupted close discards records; a flush can be repeated with a time limit.
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
        """Send until the lines end, or until an error that would repeat for every record."""
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
        """Report the outcomes and return the exit code."""
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
