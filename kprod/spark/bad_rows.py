"""Rows that can never be records: counted by reason, limited, and turned into dead letters.

Thread-safety: one task's.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kprod import Producer
from kprod.spark.dead_letters import DeadLetters
from kprod.spark.options import RecordErrorMode, SinkOptions
from kprod.spark.row_faults import RejectedRows, RowFault, fault_text
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import TaskReport
from kprod.wording import counted

__all__ = ["BadRows", "as_rows"]

DICTIONARIES_MAX = 1_000  # at a time; each takes a kilobyte, and a task may have 250,000 bad rows

_HEADERS = pa.list_(pa.struct([("key", pa.large_binary()), ("value", pa.large_binary())]))


class BadRows:
    """One task's bad rows.

    Args:
        producer: The task's.
        options: Options of the write.
        report: Counts them.
    """

    __slots__ = ("_dead_letters", "_limits", "_mode", "_report")

    def __init__(self, producer: Producer, options: SinkOptions, report: TaskReport) -> None:
        self._mode = options.on_record_error
        self._limits = options.bad_row_limits
        self._report = report
        self._dead_letters: DeadLetters | None = None
        if options.dead_letter_topic is not None:
            self._dead_letters = DeadLetters(
                producer, options.dead_letter_topic, options.flush_timeout_ms
            )

    def leave_out(self, rejected: RejectedRows, topic: str | None) -> None:
        """Leave out the rows that `reject` found.

        Args:
            rejected: Rows with one fault.
            topic: Topic from the options; None if each row has its own.

        Raises:
            TaskFailed: More rows are bad than may be left out.
        """
        if self._mode is RecordErrorMode.FAIL:
            (first,) = as_rows(rejected.rows.slice(0, 1))
            raise TaskFailed(
                f"{counted(rejected.rows.num_rows, 'row')} of a batch can never be records"
                f" ({rejected.fault.value}): {fault_text(rejected.fault, first)}; correct the"
                " query, or set on_record_error to skip or dlq:<topic>"
            )
        for row in as_rows(rejected.rows):
            self._add(row, topic, rejected.fault, fault_text(rejected.fault, row))
        self.check_limits()

    def leave_out_one(self, row: dict[str, Any], topic: str, fault: RowFault, error: str) -> None:
        """Leave out a row that the producer or the broker rejected.

        Args:
            row: One of `as_rows`.
            topic: The row's topic.
            fault: The row's fault.
            error: The fault in a sentence.

        Raises:
            TaskFailed: An older dead letter is not delivered.
        """
        self._add(row, topic, fault, error)

    def check_limits(self) -> None:
        """Stop the task where too many rows are bad.

        Raises:
            TooManyBadRows: A limit is exceeded.
        """
        report = self._report
        self._limits.check(report.bad_count, report.row_count, report.faults_text())

    def settle(self) -> None:
        """Wait until every dead letter has arrived.

        Raises:
            TaskFailed: One did not.
        """
        if self._dead_letters is not None:
            self._dead_letters.settle()

    def _add(self, row: dict[str, Any], topic: str | None, fault: RowFault, error: str) -> None:
        if self._dead_letters is not None:
            self._dead_letters.send(row, topic, fault, error)
        is_letter = self._dead_letters is not None
        self._report.add_bad_row(fault.value, error, row.get("key"), is_dead_letter=is_letter)


def as_rows(rows: Any) -> Iterator[dict[str, Any]]:
    """Return rows as dictionaries by role.

    Args:
        rows: A pyarrow record batch or table.

    Yields:
        One for each row: texts as the bytes that they are, which need not be valid UTF-8, and
        timestamps as milliseconds.
    """
    columns = [_plain(rows.column(name)) for name in rows.schema.names]
    plain = pa.table(columns, names=rows.schema.names)
    for begin in range(0, plain.num_rows, DICTIONARIES_MAX):
        yield from plain.slice(begin, DICTIONARIES_MAX).to_pylist()


def _milliseconds(column: Any) -> Any:
    """Round down, so that a microsecond before 1970 is before 1970 in milliseconds, too."""
    cut = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    is_above = pc.greater(cut.cast(column.type, safe=False), column)
    return pc.subtract(cut.cast(pa.int64()), is_above.cast(pa.int64()))


def _plain(column: Any) -> Any:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _milliseconds(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return column.cast(_HEADERS)
    return column
