"""Delivery guarantees of a write: the work of a task, and of commit and abort on the driver.

One class for each guarantee. At least once is all there is: a task's message says that its rows are
acknowledged, and commit only reports. A class for exactly once would end `write` with a prepared
transaction in the message instead, let `commit` decide and end the transactions of all messages,
and `abort` end those of the tasks that were in time.

Thread-safety: one thread in each process. A writer takes these objects along in its pickle, so they
hold nothing but checked options and columns.
"""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kprod.errors import ConfigError
from kprod.guarded_log import guarded_logger
from kprod.secret import Secret
from kprod.spark.columns import Columns
from kprod.spark.first_look import FirstLook, can_resolve_here
from kprod.spark.options import SinkOptions
from kprod.spark.producers import ProducerCache
from kprod.spark.references import resolve, scrub, secrets_in
from kprod.spark.reports import append_report
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import TaskMessage, TaskReport, WriteReport
from kprod.spark.traffic import TrafficMeter
from kprod.spark.write_ledger import WriteLedger

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["AtLeastOnce", "Delivery"]

Messages = Sequence[WriterCommitMessage | None]
_Settings = Mapping[str, str | Secret]
_ResultT = TypeVar("_ResultT")

_logger = guarded_logger("kprod.spark")
_BATCH_ID_PROPERTY = "streaming.sql.batchId"  # internal to Spark: a test per version

_producers = ProducerCache()
_first_look = FirstLook()


class Delivery(Protocol):
    """A guarantee's three parts."""

    def write(self, batches: Iterator["RecordBatch"]) -> TaskMessage:
        """Write one task's rows, in a worker process."""

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """End a write whose tasks have all succeeded; None is a batch job."""

    def abort(self, messages: Messages, batch_id: int | None) -> None:
        """End a failed write; None means a task that did not finish."""


class AtLeastOnce:
    """At least once: a failed attempt's records remain, and the next attempt writes them again.

    Args:
        options: Options of the write.
        columns: Columns of the rows.
    """

    __slots__ = ("_columns", "_earlier", "_looks_in_task", "_options")

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._looks_in_task = False
        self._earlier: WriteReport | None = None

    def prepare(self) -> None:
        """Check brokers and topics when Spark plans the write, before any task.

        Where a reference can only be read on executors, each task's first attempt looks instead;
        further attempts are as patient as the producer's settings.

        Raises:
            ConfigError: The write has an id, and only executors can reach the brokers.
            KprodError: No broker responds, or a topic does not exist; the text contains no secret.
        """
        resolves_here = can_resolve_here(self._options.settings)
        if self._options.write_id is not None and not resolves_here:
            raise ConfigError(
                "write.id is looked up and entered by the driver, and a value of env: or file:"
                " cannot be read there; make it known to the driver, too"
            )
        self._looks_in_task = self._options.checks_cluster and not resolves_here
        if not resolves_here:
            return
        settings = resolve(self._options.settings)
        _without_secrets(self._secrets(settings), lambda: self._look_from_the_driver(settings))

    def _look_from_the_driver(self, settings: _Settings) -> None:
        if self._options.checks_cluster:
            _first_look.once(settings, self._options.topics)
        if self._options.write_id is not None:
            self._earlier = self._ledger(settings).find(self._options.write_id)

    def write(self, batches: Iterator["RecordBatch"]) -> TaskMessage:
        """Write one task's rows; return when all are acknowledged.

        Args:
            batches: The task's rows.

        Returns:
            The task's message for the commit, with the records' positions.

        Raises:
            KprodError: Not all rows could be written; the text contains no secret.
        """
        if self._earlier is not None:
            return TaskReport().message(0, 0)  # no row is requested
        context = TaskContext.get()
        partition_id = context.partitionId() if context is not None else 0
        attempt_number = context.attemptNumber() if context is not None else 0
        settings = resolve(self._options.settings)

        def write() -> TaskReport:
            self._look_in_task(settings, attempt_number)
            return self._write_with(settings, batches)

        report = _without_secrets(self._secrets(settings), write)
        return report.message(partition_id, attempt_number, _batch_id(context))

    def _look_in_task(self, settings: _Settings, attempt_number: int) -> None:
        if self._looks_in_task and attempt_number == 0:
            _first_look.once(settings, self._options.topics)

    def _write_with(self, settings: _Settings, batches: Iterator["RecordBatch"]) -> TaskReport:
        from kprod.spark.task import TaskWriter  # noqa: PLC0415 - pyarrow is for executors alone

        with _producers.lend(settings) as producer:
            meter = TrafficMeter(producer)
            task = TaskWriter(producer, self._options, self._columns)
            task.write(batches)
            task.report.traffic = meter.measured()
        return task.report

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """Report.

        Args:
            messages: One per task.
            batch_id: Id of the micro-batch; None for a batch job.

        Raises:
            TooManyBadRows: All tasks together left out more rows than allowed.
            TaskFailed: The write's id cannot be entered.
        """
        write_id = self._options.write_id
        report = replace(
            WriteReport.of(_ours(messages), batch_id),
            write_id=write_id,
            is_repetition=self._earlier is not None,
        )
        bad_count = report.skipped_count + report.dead_letter_count
        faults = ", ".join(f"{count} × {reason}" for reason, count in report.bad_rows.items())
        self._options.bad_row_limits.check(bad_count, bad_count + report.record_count, faults)
        if write_id is not None and self._earlier is None:
            self._enter(write_id, report)
        self._tell(report)

    def _enter(self, write_id: str, report: WriteReport) -> None:
        settings = resolve(self._options.settings)
        ledger = self._ledger(settings)
        _without_secrets(self._secrets(settings), lambda: ledger.enter(write_id, report))

    def _secrets(self, settings: _Settings) -> tuple[Secret, ...]:
        return secrets_in(self._options.settings, settings)

    def _ledger(self, settings: _Settings) -> WriteLedger:
        return WriteLedger(settings, self._options.ledger_topic)

    def _tell(self, report: WriteReport) -> None:
        """Log a report, and append it to the file that the user named."""
        if _logger.target.level == logging.NOTSET:
            # Nobody can configure logging in this process. Where Spark collects its workers' lines
            # it adds a handler, and this one must not be lost for the root's level; else nothing
            # is shown.
            _logger.target.setLevel(logging.INFO)
        if self._earlier is None:
            _logger.info("Committed %s", report.summary())
        else:
            _logger.info(
                "Nothing written: write.id=%s was committed before, %s",
                report.write_id,
                self._earlier.summary(),
            )
        if self._options.report_path is None:
            return
        try:
            append_report(self._options.report_path, report)
        except OSError as error:
            # The rows are in their topics: failing now would only write them once more.
            _logger.warning("No report in %s: %s", self._options.report_path, error.strerror)

    def abort(self, messages: Messages, batch_id: int | None) -> None:
        """Report the records that were written before the failure.

        Args:
            messages: One per task; None for one that did not finish.
            batch_id: Id of the micro-batch; None for a batch job.
        """
        report = WriteReport.of(_ours(messages), batch_id)
        _logger.warning(
            "Failed; these are in the topics all the same, and unfinished tasks may have written"
            " more: %s",
            report.summary(),
        )


def _without_secrets(secrets: Sequence[Secret], work: Callable[[], _ResultT]) -> _ResultT:
    """Do work; if a secret is anywhere in its error or in the causes, raise a scrubbed text."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - raised below, without secrets
        failure = _scrubbed(error, secrets)
    raise failure  # not above, where the error would be its context


def _scrubbed(error: Exception, secrets: Sequence[Secret]) -> Exception:
    full = "".join(traceback.format_exception(error))
    if scrub(full, secrets) == full:
        return error
    text = f"{type(error).__name__}: {error}\n\nWithout secrets, the error came by:\n{full}"
    return TaskFailed(scrub(text, secrets))


def _batch_id(context: TaskContext | None) -> int | None:
    """Return the micro-batch that a task belongs to; Spark sets it in `foreachBatch` as well."""
    text = None if context is None else context.getLocalProperty(_BATCH_ID_PROPERTY)
    return int(text) if text is not None and text.isdecimal() else None


def _ours(messages: Messages) -> list[TaskMessage | None]:
    return [message for message in messages if message is None or isinstance(message, TaskMessage)]
