"""The data source that Spark calls: `format("kprod")`.

Where this runs. `writer` and `streamWriter` run in a planner process on the driver's machine, and
the second again for each commit; `write` runs in worker processes; `commit` and `abort` run on the
driver's machine again. A batch writer travels to all of them as a pickle; a streaming one does not
reach its commit. So a writer holds nothing but checked options, and what commit needs comes in the
messages.

`kprod.spark.delivery_guarantee` describes a writer's guarantees.

Thread-safety: one thread in each process.
Source: Spark 4.1, Python Data Source API.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kprod.errors import ConfigError
from kprod.spark.columns import read_columns
from kprod.spark.delivery_guarantee import AtLeastOnce, Delivery
from kprod.spark.options import read_options
from kprod.spark.process_upkeep import lighten_upkeep
from kprod.spark.task_messages import TaskMessage
from kprod.spark.unpickling import reduced

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

# PySpark 4.0 has no Arrow writer for streams: it hands their rows over one by one.
_STREAMS_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
_StreamBase: Any = (
    datasource.DataSourceStreamArrowWriter if _STREAMS_ARROW else DataSourceStreamWriter
)

__all__ = ["BatchWriter", "KprodFormat", "StreamWriter", "register"]

# Spark creates a stream's writer again for the commit, after the rows were written.
_COMMIT_RUNNER = "pyspark.sql.worker.python_streaming_sink_runner"


class KprodFormat(DataSource):
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
        """Raise, since this format only writes.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError('kprod only writes; read topics with spark.read.format("kafka")')

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":  # noqa: FBT001 - Spark's
        """Check everything, and return the writer of a batch job.

        Args:
            schema: Schema of the rows.
            overwrite: The save mode.

        Returns:
            The writer, which Spark pickles.

        Raises:
            ConfigError: Something is wrong with the options or the columns.
            KprodError: No broker responds, or a topic does not exist.
        """
        if overwrite:
            raise ConfigError(
                'a topic cannot be overwritten: use .mode("append"), and delete the topic before'
                " if it must be empty"
            )
        return BatchWriter(_checked(self._options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: FBT001, N802
        """Check everything, and return the writer of one micro-batch.

        Args:
            schema: Schema of the rows.
            overwrite: Whether the output mode is complete.

        Returns:
            The writer, which Spark pickles.

        Raises:
            ConfigError: Something is wrong with the options or the columns.
            KprodError: No broker responds, or a topic does not exist.
        """
        if overwrite:
            raise ConfigError(
                'a topic cannot hold a complete result: use .outputMode("append"), or write by'
                " foreachBatch, which has update mode"
            )
        if "write.id" in self._options:
            raise ConfigError(
                "write.id names a batch write; a stream's checkpoint knows its micro-batches. In"
                " foreachBatch, make it of the query's name and the batch's number"
            )
        return StreamWriter(_checked(self._options, schema), schema)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self._options)} options>"


def register(spark: "SparkSession") -> None:
    """Make `format("kprod")` known to a session, in this thread.

    Spark looks for data sources of Python in the session that is active in the calling thread. In
    another thread of the application there is none, nor in any after an interrupt (Ctrl+C), since
    PySpark then uses another thread of Java. So this makes the session active, too.

    Args:
        spark: Classic or Connect; kprod must be installed on its driver (for Connect, the server)
            and its executors.
    """
    spark.dataSource.register(KprodFormat)
    spark.createDataFrame([], "n int")  # the call of PySpark's interface that makes it active


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch job's rows.

    Args:
        delivery: The checked write.
    """

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskMessage:
        """Write one task's rows; return when all are acknowledged.

        Args:
            iterator: The task's rows.

        Returns:
            The message for the commit.

        Raises:
            KprodError: Not all rows could be written.
        """
        message = self._delivery.write(iterator)
        lighten_upkeep()
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Report a job whose tasks have all succeeded.

        Args:
            messages: One per task.
        """
        self._delivery.commit(messages, None)
        lighten_upkeep()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Report the records that a failed job has written.

        Args:
            messages: One per task; None for one that did not finish.
        """
        self._delivery.abort(messages, None)


class StreamWriter(_StreamBase):  # type: ignore[misc]  # PySpark says which
    """Writes the rows of one micro-batch.

    Args:
        delivery: The checked write.
        schema: Schema of the rows.
    """

    def __init__(self, delivery: Delivery, schema: StructType) -> None:
        self._delivery = delivery
        self._schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)

    def write(self, iterator: Iterator[Any]) -> TaskMessage:
        """Write one task's rows; return when all are acknowledged.

        Args:
            iterator: The task's rows: Arrow batches, or with PySpark 4.0 single rows.

        Returns:
            The message for the commit.

        Raises:
            KprodError: Not all rows could be written.
        """
        if not _STREAMS_ARROW:
            from kprod.spark.row_batches import as_batches  # noqa: PLC0415 - pyarrow is for executors

            iterator = as_batches(iterator, self._schema)
        message = self._delivery.write(iterator)
        lighten_upkeep()
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Report a micro-batch whose tasks have all succeeded.

        Args:
            messages: One per task.
            batchId: Id of the micro-batch.
        """
        self._delivery.commit(messages, batchId)
        lighten_upkeep()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Say what a failed micro-batch has left in the topics.

        Args:
            messages: One per task; None for one that did not finish.
            batchId: Id of the micro-batch.
        """
        self._delivery.abort(messages, batchId)


def _checked(options: Mapping[str, str], schema: StructType) -> Delivery:
    checked = read_options(options)
    delivery = AtLeastOnce(checked, read_columns(schema, checked))
    if _COMMIT_RUNNER not in sys.modules:
        delivery.prepare()
    lighten_upkeep()
    return delivery
