"""The data source that Spark calls: `format("kprod")`.

Where this runs. `writer` and `streamWriter` run in a planner process on the driver's machine, and
the second again for each commit; `write` runs in worker processes; `commit` and `abort` run on the
driver's machine again. A batch writer travels to all of them as a pickle; a streaming one does not
reach its commit. So a writer holds nothing but checked options, and what commit needs comes in the
messages.

Guarantee: at least once. A task's message means that its rows are acknowledged; what attempts that
failed have written stays written. What exactly-once needs besides has its place here: a task would
hand over a prepared transaction in its message instead (`_write_task`), and `_commit` would decide.

Thread-safety: one thread in each process.
Source: Spark 4.1, Python Data Source API.
"""

import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kprod.errors import ConfigError
from kprod.spark.columns import Columns, read_columns
from kprod.spark.messages import TaskMessage, WriteReport
from kprod.spark.options import SinkOptions, read_options
from kprod.spark.producers import ProducerCache
from kprod.spark.references import resolve, scrub, secrets_in
from kprod.spark.reports import append_report

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

__all__ = ["BatchWriter", "KprodDataSource", "StreamWriter", "register"]

_logger = logging.getLogger("kprod.spark")
_producers = ProducerCache()


class KprodDataSource(DataSource):
    """Writes to Kafka topics; reads nothing.

    Args:
        options: The user's, with names in lower case.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        # Not kept as they are: this object is pickled, and has a repr.
        self._options = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kprod"

    def schema(self) -> NoReturn:
        """Refuse to read.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError('kprod only writes; read topics with spark.read.format("kafka")')

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":  # noqa: FBT001 - Spark's
        """Check everything, and return the writer of a batch job.

        Args:
            schema: Of the rows.
            overwrite: The save mode.

        Returns:
            The writer, which Spark pickles.

        Raises:
            ConfigError: Something is wrong with the options or the columns.
        """
        if overwrite:
            raise ConfigError(
                'a topic cannot be overwritten: use .mode("append"), and delete the topic before'
                " if it must be empty"
            )
        return BatchWriter(*_checked(self._options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: FBT001, N802
        """Check everything, and return the writer of one micro-batch.

        Args:
            schema: Of the rows.
            overwrite: Whether the output mode is complete.

        Returns:
            The writer, which Spark pickles.

        Raises:
            ConfigError: Something is wrong with the options or the columns.
        """
        if overwrite:
            raise ConfigError(
                'a topic cannot hold a complete result: use .outputMode("append") or "update"'
            )
        return StreamWriter(*_checked(self._options, schema))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self._options)} options>"


def register(spark: "SparkSession") -> None:
    """Make `format("kprod")` known to a session.

    Args:
        spark: Classic or Connect; kprod must be installed on its driver (for Connect, the server)
            and its executors.
    """
    spark.dataSource.register(KprodDataSource)


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write`.

    Args:
        options: Checked.
        columns: Checked.
    """

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskMessage:
        """Write one task's rows; return when all are acknowledged.

        Args:
            iterator: Its rows.

        Returns:
            What commit is told.

        Raises:
            KprodError: Not all could be written.
        """
        return _write_task(self._options, self._columns, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Report a job whose tasks have all succeeded.

        Args:
            messages: One per task.
        """
        _commit(self._options, messages, None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what a failed job has left in the topics.

        Args:
            messages: One per task; None for one that did not finish.
        """
        _abort(messages, None)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one micro-batch of `df.writeStream`.

    Args:
        options: Checked.
        columns: Checked.
    """

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskMessage:
        """Write one task's rows; return when all are acknowledged.

        Args:
            iterator: Its rows.

        Returns:
            What commit is told.

        Raises:
            KprodError: Not all could be written.
        """
        return _write_task(self._options, self._columns, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Report a micro-batch whose tasks have all succeeded.

        Args:
            messages: One per task.
            batchId: Of the micro-batch.
        """
        _commit(self._options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Say what a failed micro-batch has left in the topics.

        Args:
            messages: One per task; None for one that did not finish.
            batchId: Of the micro-batch.
        """
        _abort(messages, batchId)


def _checked(options: Mapping[str, str], schema: StructType) -> tuple[SinkOptions, Columns]:
    checked = read_options(options)
    return checked, read_columns(schema, checked)


def _write_task(options: SinkOptions, columns: Columns, batches: Iterator[Any]) -> TaskMessage:
    from kprod.spark.task import TaskWriter  # noqa: PLC0415 - pyarrow is for executors alone

    context = TaskContext.get()
    partition_id = context.partitionId() if context is not None else 0
    attempt_number = context.attemptNumber() if context is not None else 0
    secrets: tuple[str, ...] = ()
    try:
        settings = resolve(options.settings)
        secrets = secrets_in(options.settings, settings)
        with _producers.lend(settings) as producer:
            task = TaskWriter(producer, options, columns)
            task.write(batches)
    except Exception as error:  # noqa: BLE001 - raised again, without secrets
        _raise_without(secrets, error)
    return task.tally.message(partition_id, attempt_number)


def _raise_without(secrets: Sequence[str], error: Exception) -> NoReturn:
    """Raise the error; if a secret is anywhere in it or its causes, a scrubbed text instead."""
    full = "".join(traceback.format_exception(error))
    if scrub(full, secrets) == full:
        raise error
    from kprod.spark.task import TaskFailed  # noqa: PLC0415

    raise TaskFailed(scrub(f"{type(error).__name__}: {error}", secrets)) from None


def _commit(
    options: SinkOptions,
    messages: Sequence[WriterCommitMessage | None],
    batch_id: int | None,
) -> None:
    report = WriteReport.of(_ours(messages), batch_id)
    if _logger.level == logging.NOTSET:
        # Nobody can configure logging in this process. Where Spark collects its workers' lines it
        # adds a handler, and this one must not be lost for the root's level; else nothing is shown.
        _logger.setLevel(logging.INFO)
    _logger.info("Committed %s", report.summary())
    if options.report_path is None:
        return
    try:
        append_report(options.report_path, report)
    except OSError as error:
        # The rows are in their topics: failing now would only write them once more.
        _logger.warning("No report in %s: %s", options.report_path, error.strerror)


def _abort(messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
    report = WriteReport.of(_ours(messages), batch_id)
    _logger.warning("Failed; these are in the topics all the same: %s", report.summary())


def _ours(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage | None]:
    return [message for message in messages if message is None or isinstance(message, TaskMessage)]
