"""One task's rows, from Arrow batches to acknowledged records.

Rows are gathered until a call of `send_arrow` is worth its while, and each call's receipt is kept
until all its records are settled. The task ends when everything it sent is acknowledged: after
that nothing of it is left in the process.

Memory. The producer's `buffer_memory` bounds what is on its way; beside it there is one gathering,
and, where rows at fault are to be looked up, the batches of what is on its way.

Thread-safety: one thread, the worker's.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from kprod import Producer
from kprod.errors import BrokerError, KprodError, UnknownPartition
from kprod.spark.columns import Columns
from kprod.spark.dead_letters import DeadLetters, is_companion, is_row_at_fault
from kprod.spark.options import RecordErrorMode, SinkOptions
from kprod.spark.shaping import TopicRows, shape, split_by_topic
from kprod.spark.task_messages import OffsetSpan, TaskReport
from kprod.wording import counted

__all__ = ["NullTopic", "TaskFailed", "TaskWriter"]

GATHERED_BYTES_MAX = 16 << 20  # some MB per partition: full batches, and few small ones behind
_ROLES = ("key", "headers", "partition", "timestamp")


class TaskFailed(KprodError):
    """A task cannot go on; Spark runs it again, with a new producer."""


class NullTopic(KprodError):
    """A row's topic column is null, and no option names a topic for all."""


class _Sent(NamedTuple):
    topic: str
    receipt: Any
    rows: Any  # a table; None where nobody will ask for a row


class TaskWriter:
    """Writes the rows of one task attempt.

    Args:
        producer: For this task alone while it runs.
        options: Of the write.
        columns: Of its rows.
    """

    __slots__ = (
        "_columns",
        "_dead_letters",
        "_gathered",
        "_gathered_bytes",
        "_options",
        "_producer",
        "_sent",
        "report",
    )

    def __init__(self, producer: Producer, options: SinkOptions, columns: Columns) -> None:
        self._producer = producer
        self._options = options
        self._columns = columns
        self._sent: deque[_Sent] = deque()
        self._gathered: dict[str, list[Any]] = {}
        self._gathered_bytes = 0
        self._dead_letters: DeadLetters | None = None
        if options.dead_letter_topic is not None:
            self._dead_letters = DeadLetters(producer, options.dead_letter_topic)
        self.report = TaskReport()

    def write(self, batches: Iterable[Any]) -> None:
        """Send all rows and wait until each is settled.

        Args:
            batches: pyarrow record batches, in the query's columns.

        Raises:
            TaskFailed: A record is not delivered, and its row is not the reason or must not be
                left out; or not all is settled in time.
            KprodError: The rows cannot be sent at all, such as for lack of the topic.
        """
        for batch in batches:
            for part in split_by_topic(shape(batch, self._columns), self._options.topic):
                self._take(part)
            if self._gathered_bytes >= GATHERED_BYTES_MAX:
                self._send_gathered()
                self._settle_done()
        self._send_gathered()
        self._finish()

    def _take(self, part: TopicRows) -> None:
        if part.topic is None:
            self._reject_without_topic(part.rows)
        elif part.rows.num_rows:
            self._gathered.setdefault(part.topic, []).append(part.rows)
            self._gathered_bytes += part.rows.nbytes

    def _send_gathered(self) -> None:
        keeps_rows = self._options.on_record_error is not RecordErrorMode.FAIL
        for topic, batches in self._gathered.items():
            self._send(topic, pa.Table.from_batches(batches), keeps_rows=keeps_rows)
        self._gathered.clear()
        self._gathered_bytes = 0

    def _send(self, topic: str, table: Any, *, keeps_rows: bool) -> None:
        roles = {role: role for role in _ROLES if role in table.column_names}
        receipt = self._producer.send_arrow(topic, table, value="value", **roles)
        self._sent.append(_Sent(topic, receipt, table if keeps_rows else None))

    def _settle_done(self) -> None:
        """Look at what is settled already, so that a failure ends the task soon."""
        while self._sent and self._sent[0].receipt.done():
            self._settle(self._sent.popleft())

    def _finish(self) -> None:
        """Wait for everything; rows found at fault now may become dead letters, so once more."""
        self._flush()
        while self._sent:
            for _ in range(len(self._sent)):
                self._settle(self._sent.popleft())
            if self._sent:
                self._flush()  # what was sent again
        if self._dead_letters is not None:
            self._flush()
            self._dead_letters.settle()

    def _flush(self) -> None:
        timeout_ms = self._options.flush_timeout_ms
        late = self._producer.flush(None if timeout_ms is None else timeout_ms / 1_000)
        on_their_way = sum(not sent.receipt.done() for sent in self._sent)
        if on_their_way:
            raise TaskFailed(
                f"{counted(late, 'record was', 'records were')} not settled within"
                f" flush.timeout.ms={timeout_ms}; raise it,"
                " or see why the brokers are slow"
            )

    def _settle(self, sent: _Sent) -> None:
        for partition, offsets in sent.receipt.delivered().items():
            self.report.add(sent.topic, partition, _span(offsets))
        if not sent.receipt.failed_count:
            return
        if sent.rows is None:
            self._fail(sent)
        failures = sent.receipt.failures()
        sharers = Counter(id(error) for _, error in failures)
        sound: list[int] = []
        suspect: list[int] = []
        for index, error in failures:
            if is_companion(error):
                sound.append(index)
            elif not _is_at_fault(sent, index, error):
                self._fail(sent)
            elif isinstance(error, BrokerError) and sharers[id(error)] > 1:
                suspect.append(index)
            else:
                self._leave_out(_row_at(sent.rows, index), sent.topic, error)
        if len(sound) == len(failures):
            self._fail(sent)  # refused for rows that are none of these: that could go on for ever
        # A batch was refused, and nobody said for which of its rows: halves of it will show.
        half = len(suspect) // 2
        for again in (sound, suspect[:half], suspect[half:]):
            self._send_again(sent, again)

    def _send_again(self, sent: _Sent, indices: Sequence[int]) -> None:
        if indices:
            self._send(sent.topic, sent.rows.take(pa.array(indices)), keeps_rows=True)

    def _fail(self, sent: _Sent) -> None:
        error = sent.receipt.exception(0)
        raise TaskFailed(f"topic {sent.topic!r}: {error}") from error

    def _reject_without_topic(self, rows: Any) -> None:
        error = NullTopic(
            f"{counted(rows.num_rows, 'row has', 'rows have')} a null topic: name"
            " one for all by"
            " .option('topic', …), filter them, or see on_record_error"
        )
        if self._options.on_record_error is RecordErrorMode.FAIL:
            raise error
        table = pa.Table.from_batches([rows])
        for index in range(table.num_rows):
            self._leave_out(_row_at(table, index), None, error)

    def _leave_out(self, row: dict[str, Any], topic: str | None, error: Exception) -> None:
        if self._dead_letters is None:
            self.report.skipped_count += 1
        else:
            self._dead_letters.send(row, topic, error)
            self.report.dead_letter_count += 1


def _is_at_fault(sent: _Sent, index: int, error: Exception) -> bool:
    if isinstance(error, UnknownPartition):
        # Else its key chose a partition, which was there: the topic was made anew meanwhile.
        names_one = "partition" in sent.rows.column_names
        if not (names_one and sent.rows.column("partition")[index].is_valid):
            return False
    return is_row_at_fault(error)


def _row_at(table: Any, index: int) -> dict[str, Any]:
    """A row by role; texts as the bytes that they are, which need not be valid UTF-8."""
    row = {}
    for name in table.column_names:
        cell = table.column(name)[index]
        is_text = pa.types.is_string(cell.type) or pa.types.is_large_string(cell.type)
        row[name] = (cell.cast(pa.large_binary()) if is_text else cell).as_py()
    return row


def _span(offsets: Any) -> OffsetSpan:
    count, ranges = offsets
    if not ranges:
        return OffsetSpan(count, -1, -1)
    return OffsetSpan(count, min(r.first for r in ranges), max(r.last for r in ranges))
