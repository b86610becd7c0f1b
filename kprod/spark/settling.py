"""Records in flight, until each is acknowledged or its row is left out.

The table `NEXT_STATE` has the next state of a row that is not acknowledged. If rows may be left
out, each call of `send_arrow` is kept with its rows until its receipt is done.

Thread-safety: one task's.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from kprod import Producer
from kprod.errors import BrokerError, UnknownTopic
from kprod.protocol.error_table import ErrorCode
from kprod.spark.bad_rows import BadRows, as_rows
from kprod.spark.row_faults import RowFault
from kprod.spark.row_states import NEXT_STATE, RowState, fault_of, outcome_of
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import OffsetSpan, TaskReport
from kprod.wording import counted

__all__ = ["Settling"]

MISSING_TOPICS_MAX = 1_000  # remembered, since each costs a wait of max_block_ms

_ROLES = ("key", "headers", "partition", "timestamp")


class _Sent(NamedTuple):
    topic: str
    receipt: Any
    rows: Any  # a table; None if a bad row fails the task, so that it is not needed


class Settling:
    """Sends tables and settles every row of them.

    Args:
        producer: The task's.
        bad_rows: Handles the rows that cannot be records; None if one fails the task.
        report: Counts deliveries.
        rows_name_topics: Whether rows name their topics, so that a missing topic is the row's
            fault.
    """

    __slots__ = ("_bad_rows", "_missing", "_producer", "_report", "_rows_name_topics", "_sent")

    def __init__(
        self,
        producer: Producer,
        bad_rows: BadRows | None,
        report: TaskReport,
        *,
        rows_name_topics: bool = False,
    ) -> None:
        self._producer = producer
        self._rows_name_topics = rows_name_topics
        self._missing: dict[str, str] = {}
        self._bad_rows = bad_rows
        self._report = report
        self._sent: deque[_Sent] = deque()

    def send(self, topic: str, table: Any) -> None:
        """Hand rows over to the producer.

        Args:
            topic: Topic of the dead letters.
            table: A pyarrow table with columns named by roles.

        Raises:
            UnknownTopic: There is no such topic, and an option named it.
            TaskFailed: Rows name a missing topic, and more rows are bad than may be left out.
            KprodError: No row can be sent, for another reason.
        """
        roles = {role: role for role in _ROLES if role in table.column_names}
        if topic in self._missing:
            self._leave_out_all(topic, table)
            return
        try:
            receipt = self._producer.send_arrow(topic, table, value="value", **roles)
        except UnknownTopic as error:
            if not (self._rows_name_topics and _is_missing(error)):
                raise
            while len(self._missing) >= MISSING_TOPICS_MAX:
                self._missing.pop(next(iter(self._missing)))
            self._missing[topic] = f"{type(error).__name__}: {error}"
            self._leave_out_all(topic, table)
            return
        self._sent.append(_Sent(topic, receipt, None if self._bad_rows is None else table))

    def _leave_out_all(self, topic: str, table: Any) -> None:
        text = self._missing[topic]
        if self._bad_rows is None:
            raise TaskFailed(f"{counted(table.num_rows, 'row')} of a batch: {text}")
        for row in as_rows(table):
            self._bad_rows.leave_out_one(row, topic, RowFault.UNKNOWN_TOPIC, text)
        self._bad_rows.check_limits()

    def settle_done(self) -> None:
        """Check the receipts that are done, so that a failure ends the task soon.

        Raises:
            TaskFailed: A record is not delivered, and its row must not be left out.
        """
        while self._sent and self._sent[0].receipt.done():
            self._settle(self._sent.popleft())

    def settle_all(self, timeout_ms: int | None) -> None:
        """Wait until every row is settled, those that are sent again included.

        Args:
            timeout_ms: Longest wait of each flush; None waits as long as `delivery_timeout_ms`.

        Raises:
            TaskFailed: A record is not delivered and its row must not be left out, or the wait is
                over.
        """
        self._flush(timeout_ms)
        while self._sent:
            for _ in range(len(self._sent)):
                self._settle(self._sent.popleft())
            if self._sent:
                self._flush(timeout_ms)  # for the rows sent again

    def _flush(self, timeout_ms: int | None) -> None:
        late = self._producer.flush(None if timeout_ms is None else timeout_ms / 1_000)
        if any(not sent.receipt.done() for sent in self._sent):
            raise TaskFailed(
                f"{counted(late, 'record was', 'records were')} not settled within"
                f" flush.timeout.ms={timeout_ms}; raise it,"
                " or see why the brokers are slow"
            )

    def _settle(self, sent: _Sent) -> None:
        for partition, offsets in sent.receipt.delivered().items():
            self._report.add(sent.topic, partition, _span(offsets))
        if not sent.receipt.failed_count:
            return
        if self._bad_rows is None:
            _fail(sent)
        self._settle_failures(sent, self._bad_rows)

    def _settle_failures(self, sent: _Sent, bad_rows: BadRows) -> None:
        failures = sent.receipt.failures()
        by_state = _by_state(sent, failures)
        again = by_state[RowState.SENT_AGAIN]
        # A batch rejected for rows that it does not contain could be sent again without end.
        if by_state[RowState.FAILED] or len(again) == len(failures):
            _fail(sent)
        errors = dict(failures)
        bad = by_state[RowState.BAD]
        for index, row in zip(bad, as_rows(sent.rows.take(pa.array(bad, pa.int64()))), strict=True):
            error = errors[index]
            text = f"{type(error).__name__}: {error}"
            bad_rows.leave_out_one(row, sent.topic, fault_of(error), text)
        bad_rows.check_limits()
        suspects = by_state[RowState.SENT_IN_HALVES]
        half = len(suspects) // 2
        for part in (again, suspects[:half], suspects[half:]):
            self._send_again(sent, part)

    def _send_again(self, sent: _Sent, indices: Sequence[int]) -> None:
        if indices:
            self.send(sent.topic, sent.rows.take(pa.array(indices)))


def _by_state(sent: _Sent, failures: Sequence[tuple[int, Exception]]) -> dict[RowState, list[int]]:
    sharers = Counter(id(error) for _, error in failures)
    names_one = "partition" in sent.rows.column_names
    by_state: dict[RowState, list[int]] = {state: [] for state in RowState}
    for index, error in failures:
        outcome = outcome_of(
            error,
            names_partition=names_one and sent.rows.column("partition")[index].is_valid,
            is_shared=sharers[id(error)] > 1,
        )
        by_state[NEXT_STATE[outcome]].append(index)
    return by_state


def _is_missing(error: UnknownTopic) -> bool:
    cause = error.__cause__
    return isinstance(cause, BrokerError) and cause.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _fail(sent: _Sent) -> NoReturn:
    error = sent.receipt.exception(0)
    raise TaskFailed(f"topic {sent.topic!r}: {error}") from error


def _span(offsets: Any) -> OffsetSpan:
    count, ranges = offsets
    if not ranges:
        return OffsetSpan(count, -1, -1)
    return OffsetSpan(count, min(r.first for r in ranges), max(r.last for r in ranges))
