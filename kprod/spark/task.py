"""One task's rows, from Arrow batches to acknowledged records.

Rows at fault are rejected first. Where the topic is the write's and one bad row fails the task, the
others are copied at once into the batches of a call that stays open for some megabytes. Otherwise
they are gathered until a call of `send_arrow` is worth its while. The task ends when everything it
sent is acknowledged: after that nothing of it is left in the process.

Why not one way for all. A call for each topic that rows name, all of them open, could hold all the
memory in batches that are not sent, and wait for it; so could a dead letter beside an open call.
And rows that may be left out must be kept until they are settled.

Memory. The producer's `buffer_memory` bounds the records in flight; beside it there is one
gathering, a bounded number of dead letters, and, where bad rows are left out, the batches of rows
in flight.

Thread-safety: one thread, the worker's.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from kprod import Producer
from kprod.producer.producer import engine_of
from kprod.spark.bad_rows import BadRows
from kprod.spark.columns import Columns
from kprod.spark.options import RecordErrorMode, SinkOptions
from kprod.spark.row_faults import reject
from kprod.spark.settling import Settling
from kprod.spark.shaping import TopicRows, shape, split_by_topic
from kprod.spark.task_messages import TaskReport

__all__ = ["TaskWriter"]

# some MB for each partition: full batches, followed by few small ones
GATHERED_BYTES_MAX = 16 << 20
GATHERED_SHARE = 0.25  # at most, of buffer_memory: some calls in flight while one is gathered
# Smaller arrays, on average, are made one by a copy, since the producer ends its batches with each
# array; larger ones fill batches by themselves.
ARRAY_BYTES_MIN = 4 << 20
GATHERED_ROWS_MAX = 250_000  # each row may fail with an error of its own


class TaskWriter:
    """Writes the rows of one task attempt.

    Args:
        producer: A producer that no other task uses meanwhile.
        options: Options of the write.
        columns: Columns of the rows.
    """

    __slots__ = (
        "_bad_rows",
        "_columns",
        "_feeds",
        "_gathered",
        "_gathered_bytes",
        "_gathered_bytes_max",
        "_gathered_count",
        "_options",
        "_settling",
        "report",
    )

    def __init__(self, producer: Producer, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        self._gathered: dict[str, list[Any]] = {}
        self._gathered_bytes = 0
        self._gathered_bytes_max = min(
            GATHERED_BYTES_MAX, int(engine_of(producer).config.buffer_memory * GATHERED_SHARE)
        )
        self._gathered_count = 0
        self.report: TaskReport = TaskReport()
        self._bad_rows = BadRows(producer, options, self.report)
        may_leave_out = options.on_record_error is not RecordErrorMode.FAIL
        self._feeds = not may_leave_out and options.topic is not None
        self._settling = Settling(
            producer,
            self._bad_rows if may_leave_out else None,
            self.report,
            rows_name_topics=may_leave_out and options.topic is None,
        )

    def write(self, batches: Iterable[Any]) -> None:
        """Send all rows and wait until each is settled.

        Args:
            batches: pyarrow record batches, in the query's columns.

        Raises:
            TaskFailed: A record is not delivered, and its row is not the reason or must not be
                left out; or not all is settled in time.
            KprodError: The rows cannot be sent at all, such as for lack of the topic.
        """
        try:
            for batch in batches:
                self.report.row_count += batch.num_rows
                for part in split_by_topic(self._sound_rows(batch), self._options.topic):
                    self._gather(part)
                if self._is_enough():
                    self._send_gathered()
                    self._settling.settle_done()
        finally:
            self._settling.end_feed()
        self._send_gathered()
        self._settling.settle_all(self._options.flush_timeout_ms)
        self._bad_rows.settle()
        self._bad_rows.check_limits()

    def _sound_rows(self, batch: Any) -> Any:
        sound, rejected = reject(shape(batch, self._columns))
        for each in rejected:
            self._bad_rows.leave_out(each, self._options.topic)
        return sound

    def _gather(self, part: TopicRows) -> None:
        if part.rows.num_rows:
            if self._feeds:
                self._settling.feed(part.topic, part.rows)
            else:
                self._gathered.setdefault(part.topic, []).append(part.rows)
            self._gathered_bytes += part.rows.nbytes
            self._gathered_count += part.rows.num_rows

    def _is_enough(self) -> bool:
        return (
            self._gathered_bytes >= self._gathered_bytes_max
            or self._gathered_count >= GATHERED_ROWS_MAX
        )

    def _send_gathered(self) -> None:
        self._settling.end_feed()
        self._settling.look_up(self._gathered)
        for topic, batches in self._gathered.items():
            table = pa.Table.from_batches(batches)
            if table.nbytes < ARRAY_BYTES_MIN * len(batches):
                table = table.combine_chunks()
            self._settling.send(topic, table)
        self._gathered.clear()
        self._gathered_bytes = 0
        self._gathered_count = 0
