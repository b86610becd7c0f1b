"""kprod's data source with one accident in it: a task raises, or its worker or executor is killed.

Worker processes import this module by its name, like the data source itself.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kprod.spark import KprodFormat
from kprod.spark.sink import BatchWriter, StreamWriter
from kprod.spark.task_messages import TaskMessage

if TYPE_CHECKING:
    from pyarrow import RecordBatch

PREFIX = "fault."


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The accident in the first attempt of one task.

    Attributes:
        kind: `raise`, `kill_worker` or `kill_executor`.
        partition_id: Partition of the task.
        after_rows: Number of rows passed on before the accident; −1 once all are written and
            nothing was reported.
    """

    kind: str
    partition_id: int
    after_rows: int

    def watch(self, batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        """Hand the rows on until it is time.

        Yields:
            Each batch.
        """
        count = 0
        for batch in batches:
            yield batch
            count += getattr(batch, "num_rows", 1)  # PySpark 4.0 streams row by row
            if 0 <= self.after_rows <= count:
                self.strike()

    def strike(self) -> None:
        """Let it happen, if this is the task and its first attempt."""
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() != self.partition_id or context.attemptNumber() != 0:
            return
        if self.kind == "raise":
            raise RuntimeError("the accident that was asked for")
        victim = os.getpid()
        if self.kind == "kill_executor":
            victim = _parent_of(os.getppid())  # worker, daemon, JVM
        os.kill(victim, signal.SIGKILL)


class FaultySource(KprodFormat):
    """The data source under another name, with the fault's own options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({n: v for n, v in options.items() if not n.startswith(PREFIX)})
        self._fault = Fault(
            kind=options[f"{PREFIX}kind"],
            partition_id=int(options.get(f"{PREFIX}partition", "0")),
            after_rows=int(options.get(f"{PREFIX}after", "-1")),
        )

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kprod_faulty"

    def writer(self, schema: StructType, overwrite: bool) -> "FaultyBatchWriter":  # type: ignore[override]
        """Wrap the writer of a batch job.

        Returns:
            It.
        """
        return FaultyBatchWriter(super().writer(schema, overwrite), self._fault)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "FaultyStreamWriter":  # noqa: N802
        """Wrap the writer of a micro-batch.

        Returns:
            It.
        """
        return FaultyStreamWriter(super().streamWriter(schema, overwrite), self._fault)


class FaultyBatchWriter(DataSourceArrowWriter):
    """A batch writer to which it happens."""

    def __init__(self, inner: BatchWriter, fault: Fault) -> None:
        self._inner = inner
        self._fault = fault

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskMessage:
        """Write, with the accident in the middle or at the end.

        Returns:
            The message for the commit.
        """
        message = self._inner.write(self._fault.watch(iterator))
        if self._fault.after_rows < 0:
            self._fault.strike()
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit as it does."""
        self._inner.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort as it does."""
        self._inner.abort(messages)


class FaultyStreamWriter(StreamWriter):
    """A micro-batch's writer to which it happens; of the kind that this PySpark has."""

    def __init__(self, inner: StreamWriter, fault: Fault) -> None:
        self._inner = inner
        self._fault = fault

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskMessage:
        """Write, with the accident in the middle or at the end.

        Returns:
            The message for the commit.
        """
        message = self._inner.write(self._fault.watch(iterator))
        if self._fault.after_rows < 0:
            self._fault.strike()
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit as it does."""
        self._inner.commit(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort as it does."""
        self._inner.abort(messages, batchId)


def _parent_of(process_id: int) -> int:
    fields = Path(f"/proc/{process_id}/stat").read_text("utf-8").rpartition(")")[2].split()
    return int(fields[1])
