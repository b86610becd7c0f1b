"""Messages from tasks to the driver about their rows, and the driver's summary of them.

A message is small whatever the task wrote: one count and one range of offsets per partition.

Thread-safety: immutable values; `TaskReport` belongs to one task.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import starmap
from typing import Any, NamedTuple, Self

from pyspark.sql.datasource import WriterCommitMessage

from kprod.spark.traffic import Traffic
from kprod.wording import counted

__all__ = ["BadRow", "OffsetSpan", "TaskMessage", "TaskReport", "WriteReport"]

OFFSET_UNKNOWN = -1
SAMPLES_MAX = 3  # per reason
SAMPLE_KEY_BYTES = 100
SAMPLE_ERROR_CHARACTERS = 500


class OffsetSpan(NamedTuple):
    """The offsets of a write's rows in one partition.

    Attributes:
        record_count: Number of this write's rows in the partition.
        first: Least of their offsets; −1 where the broker did not say.
        last: Greatest of them. Others' records may lie between.
    """

    record_count: int
    first: int
    last: int

    def merged(self, other: Self) -> "OffsetSpan":
        """Return the span of both."""
        known = [span for span in (self, other) if span.first != OFFSET_UNKNOWN]
        return OffsetSpan(
            self.record_count + other.record_count,
            min((span.first for span in known), default=OFFSET_UNKNOWN),
            max((span.last for span in known), default=OFFSET_UNKNOWN),
        )


class BadRow(NamedTuple):
    """A sample of the rows that were left out.

    Attributes:
        reason: A value of `kprod.spark.row_faults.RowFault`.
        error: This row's fault, in a sentence.
        key: The start of its key; None where it has none.
    """

    reason: str
    error: str
    key: str | None


Spans = dict[str, dict[int, OffsetSpan]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage(WriterCommitMessage):
    """One task attempt's outcome: everything in it is acknowledged.

    Attributes:
        partition_id: The task's, in Spark.
        attempt_number: 0 for the first.
        spans: Ranges of offsets, by topic and partition.
        skipped_count: Rows that can never be records and were left out.
        dead_letter_count: Number of bad rows that went to the dead letter topic.
        bad_rows: Their count by reason.
        samples: Some of them.
        traffic: Requests and bytes that the task sent.
        batch_id: The micro-batch's, where Spark tells tasks; None in a batch job.
    """

    partition_id: int
    attempt_number: int
    spans: Mapping[str, Mapping[int, OffsetSpan]]
    skipped_count: int = 0
    dead_letter_count: int = 0
    bad_rows: Mapping[str, int] = field(default_factory=dict)
    samples: tuple[BadRow, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    batch_id: int | None = None

    @property
    def record_count(self) -> int:
        """Rows that are in their topics."""
        return sum(span.record_count for spans in self.spans.values() for span in spans.values())

    @property
    def repeated_count_max(self) -> int:
        """Rows that failed attempts before this one may have written, too."""
        return self.record_count * self.attempt_number


@dataclass(slots=True)
class TaskReport:
    """Adds up a task's deliveries."""

    spans: Spans = field(default_factory=dict)
    row_count: int = 0
    skipped_count: int = 0
    dead_letter_count: int = 0
    bad_rows: Counter[str] = field(default_factory=Counter)
    samples: list[BadRow] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def bad_count(self) -> int:
        """Rows that were left out."""
        return self.skipped_count + self.dead_letter_count

    def add_bad_row(
        self, reason: str, error: str, key: bytes | None, *, is_dead_letter: bool
    ) -> None:
        """Count a row that was left out, and keep it as a sample while there are few."""
        if is_dead_letter:
            self.dead_letter_count += 1
        else:
            self.skipped_count += 1
        self.bad_rows[reason] += 1
        if self.bad_rows[reason] <= SAMPLES_MAX:
            shown = None if key is None else key[:SAMPLE_KEY_BYTES].decode(errors="replace")
            self.samples.append(BadRow(reason, error[:SAMPLE_ERROR_CHARACTERS], shown))

    def add_bad_rows(self, bad_rows: Mapping[str, int], samples: Iterable[BadRow]) -> None:
        """Add what another task left out."""
        self.bad_rows.update(bad_rows)
        for sample in samples:
            if sum(sample.reason == kept.reason for kept in self.samples) < SAMPLES_MAX:
                self.samples.append(sample)

    def faults_text(self) -> str:
        """Name the reasons, the most frequent first, each with one error."""
        first = {sample.reason: sample.error for sample in reversed(self.samples)}
        return "; ".join(
            f"{count} × {reason}, such as: {first[reason]}"
            for reason, count in self.bad_rows.most_common()
        )

    def add(self, topic: str, partition: int, span: OffsetSpan) -> None:
        """Count records of one partition."""
        spans = self.spans.setdefault(topic, {})
        spans[partition] = spans[partition].merged(span) if partition in spans else span

    def message(
        self, partition_id: int, attempt_number: int, batch_id: int | None = None
    ) -> TaskMessage:
        """Return the message for the driver."""
        return TaskMessage(
            partition_id=partition_id,
            attempt_number=attempt_number,
            spans=self.spans,
            skipped_count=self.skipped_count,
            dead_letter_count=self.dead_letter_count,
            bad_rows=dict(self.bad_rows),
            samples=tuple(self.samples),
            traffic=self.traffic,
            batch_id=batch_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """One committed write: a batch job's, or a micro-batch's.

    Rows of attempts that failed are in the topics too; they are not in `record_count`.

    Attributes:
        batch_id: The micro-batch's, also where `foreachBatch` writes; None for a batch job.
        task_count: Tasks that wrote.
        record_count: Rows that are in their topics.
        skipped_count: Rows that can never be records and were left out.
        dead_letter_count: Number of bad rows that went to the dead letter topic.
        bad_rows: Both kinds' count by reason.
        samples: At most `SAMPLES_MAX` of them for each reason.
        attempt_count: Attempts of all tasks, as far as Spark numbers them: a task that was run
            again for another stage attempt begins with 0.
        repeated_count_max: Maximum number of rows that failed attempts may have duplicated.
        traffic: Requests and bytes that the successful attempts sent.
        spans: Ranges of the rows' offsets, by topic and partition.
        write_id: The option `write.id`; None without it.
        is_repetition: Whether nothing was written, since a write of this id was committed before.

    Thread-safety: immutable.
    """

    batch_id: int | None
    task_count: int
    record_count: int
    skipped_count: int
    dead_letter_count: int
    bad_rows: Mapping[str, int] = field(default_factory=dict)
    samples: tuple[BadRow, ...] = ()
    attempt_count: int = 0
    repeated_count_max: int = 0
    traffic: Traffic = field(default_factory=Traffic)
    spans: Mapping[str, Mapping[int, OffsetSpan]]
    write_id: str | None = None
    is_repetition: bool = False

    @classmethod
    def of(cls, messages: Iterable[TaskMessage | None], batch_id: int | None = None) -> Self:
        """Add up the messages of all tasks.

        Args:
            messages: One per task; None for one that never finished.
            batch_id: The micro-batch's; None for a batch job.

        Returns:
            The sum.
        """
        told = [message for message in messages if message is not None]
        total = TaskReport()
        for message in told:
            total.skipped_count += message.skipped_count
            total.dead_letter_count += message.dead_letter_count
            total.add_bad_rows(message.bad_rows, message.samples)
            total.traffic = total.traffic.merged(message.traffic)
            batch_id = message.batch_id if batch_id is None else batch_id
            for topic, spans in message.spans.items():
                for partition, span in spans.items():
                    total.add(topic, partition, span)
        return cls(
            batch_id=batch_id,
            task_count=len(told),
            record_count=sum(message.record_count for message in told),
            skipped_count=total.skipped_count,
            dead_letter_count=total.dead_letter_count,
            bad_rows=dict(total.bad_rows),
            samples=tuple(total.samples),
            attempt_count=sum(message.attempt_number + 1 for message in told),
            repeated_count_max=sum(message.repeated_count_max for message in told),
            traffic=total.traffic,
            spans={topic: dict(sorted(spans.items())) for topic, spans in total.spans.items()},
        )

    def to_json(self) -> str:
        """Return one line, which `from_json` reads."""
        return json.dumps(
            {
                "batch_id": self.batch_id,
                "task_count": self.task_count,
                "record_count": self.record_count,
                "skipped_count": self.skipped_count,
                "dead_letter_count": self.dead_letter_count,
                "bad_rows": self.bad_rows,
                "samples": self.samples,
                "attempt_count": self.attempt_count,
                "repeated_count_max": self.repeated_count_max,
                "traffic": asdict(self.traffic),
                "spans": self.spans,
                "write_id": self.write_id,
                "is_repetition": self.is_repetition,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read a line of a report.

        Args:
            line: A line that `to_json` wrote.

        Returns:
            The report that it says.

        Raises:
            ValueError: It is none.
        """
        try:
            content: dict[str, Any] = json.loads(line)
            spans = {
                topic: {int(partition): OffsetSpan(*span) for partition, span in spans.items()}
                for topic, spans in content.pop("spans").items()
            }
            samples = tuple(starmap(BadRow, content.pop("samples", ())))
            traffic = Traffic(**content.pop("traffic", {}))
            return cls(**content, samples=samples, traffic=traffic, spans=spans)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no line of a write report: {line[:80]!r}") from error

    def summary(self) -> str:
        """Format the report as one line of a log."""
        places = "; ".join(
            f"{topic}[{partition}] {span.record_count} at {span.first}–{span.last}"
            for topic, spans in self.spans.items()
            for partition, span in spans.items()
        )
        which = "" if self.batch_id is None else f"batch {self.batch_id}: "
        return (
            f"{which}{counted(self.record_count, 'record')} of {counted(self.task_count, 'task')},"
            f" {self.skipped_count} skipped,"
            f" {counted(self.dead_letter_count, 'dead letter')}{self._reasons()},"
            f" {counted(self.attempt_count, 'attempt')}, at most"
            f" {counted(self.repeated_count_max, 'row')} repeated; {places}"
        )

    def _reasons(self) -> str:
        if not self.bad_rows:
            return ""
        reasons = ", ".join(f"{count} × {reason}" for reason, count in self.bad_rows.items())
        return f" ({reasons})"
