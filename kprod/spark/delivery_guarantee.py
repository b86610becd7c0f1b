"""How often rows arrive: what a task does with them, and what commit and abort do on the driver.

One class for each guarantee. At least once is all there is: a task's message says that its rows are
acknowledged, and commit only reports. A class for exactly once would end `write` with a prepared
transaction in the message instead, let `commit` decide and end the transactions of all messages,
and `abort` end those of the tasks that were in time.

Thread-safety: one thread in each process. A writer takes these objects along in its pickle, so they
hold nothing but checked options and columns.
"""

import logging
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kprod.guarded_log import guarded_logger
from kprod.spark.columns import Columns
from kprod.spark.options import SinkOptions
from kprod.spark.producers import ProducerCache
from kprod.spark.references import resolve, scrub, secrets_in
from kprod.spark.reports import append_report
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import TaskMessage, WriteReport

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["AtLeastOnce", "Delivery"]

Messages = Sequence[WriterCommitMessage | None]

_logger = guarded_logger("kprod.spark")
_producers = ProducerCache()


class Delivery(Protocol):
    """A guarantee's three parts."""

    def write(self, batches: Iterator["RecordBatch"]) -> TaskMessage:
        """Write one task's rows, in a worker process."""

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """End a write whose tasks have all succeeded; None is a batch job."""

    def abort(self, messages: Messages, batch_id: int | None) -> None:
        """End a write that failed; None stands for a task that did not finish."""


class AtLeastOnce:
    """What a failed attempt has written stays written, and its successor writes it again.

    Args:
        options: Of the write.
        columns: Of its rows.
    """

    __slots__ = ("_columns", "_options")

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def write(self, batches: Iterator["RecordBatch"]) -> TaskMessage:
        """Write one task's rows; return when all are acknowledged.

        Args:
            batches: Its rows.

        Returns:
            Where they are.

        Raises:
            KprodError: Not all could be written; no secret is in its text.
        """
        from kprod.spark.task import TaskWriter  # noqa: PLC0415 - pyarrow is for executors alone

        context = TaskContext.get()
        partition_id = context.partitionId() if context is not None else 0
        attempt_number = context.attemptNumber() if context is not None else 0
        secrets: tuple[str, ...] = ()
        try:
            settings = resolve(self._options.settings)
            secrets = secrets_in(self._options.settings, settings)
            with _producers.lend(settings) as producer:
                task = TaskWriter(producer, self._options, self._columns)
                task.write(batches)
        except Exception as error:  # noqa: BLE001 - raised again, without secrets
            _raise_without(secrets, error)
        return task.report.message(partition_id, attempt_number)

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """Report.

        Args:
            messages: One per task.
            batch_id: Of the micro-batch; None for a batch job.

        Raises:
            TooManyBadRows: All tasks together left out more rows than allowed.
        """
        report = WriteReport.of(_ours(messages), batch_id)
        bad_count = report.skipped_count + report.dead_letter_count
        faults = ", ".join(f"{count} × {reason}" for reason, count in report.bad_rows.items())
        self._options.bad_row_limits.check(bad_count, bad_count + report.record_count, faults)
        if _logger.target.level == logging.NOTSET:
            # Nobody can configure logging in this process. Where Spark collects its workers' lines
            # it adds a handler, and this one must not be lost for the root's level; else nothing
            # is shown.
            _logger.target.setLevel(logging.INFO)
        _logger.info("Committed %s", report.summary())
        if self._options.report_path is None:
            return
        try:
            append_report(self._options.report_path, report)
        except OSError as error:
            # The rows are in their topics: failing now would only write them once more.
            _logger.warning("No report in %s: %s", self._options.report_path, error.strerror)

    def abort(self, messages: Messages, batch_id: int | None) -> None:
        """Say what is in the topics all the same.

        Args:
            messages: One per task; None for one that did not finish.
            batch_id: Of the micro-batch; None for a batch job.
        """
        report = WriteReport.of(_ours(messages), batch_id)
        _logger.warning("Failed; these are in the topics all the same: %s", report.summary())


def _raise_without(secrets: Sequence[str], error: Exception) -> NoReturn:
    """Raise the error; if a secret is anywhere in it or its causes, a scrubbed text instead."""
    full = "".join(traceback.format_exception(error))
    if scrub(full, secrets) == full:
        raise error
    raise TaskFailed(scrub(f"{type(error).__name__}: {error}", secrets)) from None


def _ours(messages: Messages) -> list[TaskMessage | None]:
    return [message for message in messages if message is None or isinstance(message, TaskMessage)]
