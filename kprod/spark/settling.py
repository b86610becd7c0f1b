"""Records in flight, until each is acknowledged or its row is left out.

Calls wait for older ones before the producer's memory is used up: once it is, the producer sends
every batch at once, however small, and small batches cost the brokers and the worker the most.

Invariants.
    The rows in flight, with those of the next call, take at most `IN_FLIGHT_SHARE` of
    `buffer_memory`, unless one call alone takes more.

The table `NEXT_STATE` has the next state of a row that is not acknowledged. If rows may be left
out, each call of `send_arrow` is kept with its rows until its receipt is done.

Thread-safety: one task's.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from kprod import Producer
from kprod.errors import BrokerError, UnknownTopic
from kprod.producer.bulk import ArrowFeed
from kprod.producer.producer import engine_of
from kprod.spark.bad_rows import BadRows, as_rows
from kprod.spark.row_faults import RowFault
from kprod.spark.row_states import NEXT_STATE, RowState, fault_of, outcome_of
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import OffsetSpan, TaskReport
from kprod.spark.topic_lookup import is_topic_fault, lookup_of
from kprod.wording import counted

__all__ = ["Settling"]

ABSENT_TOPICS_MAX = 1_000  # remembered in a task

IN_FLIGHT_SHARE = 0.75  # the rest is for open batches, which take whole chunks
RECORD_OVERHEAD_BYTES = 10  # at least: lengths, and the differences of time and offset

_ROLES = ("key", "headers", "partition", "timestamp")


class _Sent(NamedTuple):
    topic: str
    receipt: Any
    size_bytes: int
    rows: Any  # a table; None if a bad row fails the task, so that it is not needed


class _TopicFault(NamedTuple):
    fault: RowFault
    text: str


class Settling:
    """Sends tables and settles every row of them.

    Args:
        producer: The task's.
        bad_rows: Handles the rows that cannot be records; None if one fails the task.
        report: Counts deliveries.
        rows_name_topics: Whether rows name their topics, so that a topic that cannot be written to
            is the row's fault.
    """

    __slots__ = (
        "_absent",
        "_bad_rows",
        "_fed_bytes",
        "_fed_topic",
        "_feed",
        "_in_flight_bytes",
        "_in_flight_bytes_max",
        "_producer",
        "_report",
        "_rows_name_topics",
        "_sent",
    )

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
        self._absent: dict[str, _TopicFault] = {}
        self._bad_rows = bad_rows
        self._report = report
        self._sent: deque[_Sent] = deque()
        self._feed: ArrowFeed | None = None
        self._fed_topic = ""
        self._fed_bytes = 0
        self._in_flight_bytes = 0
        self._in_flight_bytes_max = int(engine_of(producer).config.buffer_memory * IN_FLIGHT_SHARE)

    def look_up(self, topics: Iterable[str]) -> None:
        """Look up topics before rows are sent to them, all in one wait; only if rows name them.

        Args:
            topics: Names that are new to this task, and others.
        """
        if self._rows_name_topics:
            new = [topic for topic in topics if topic not in self._absent]
            for topic, error in lookup_of(self._producer).absent(new).items():
                self._note_absent(topic, error, f"topic {topic!r} cannot be written to: {error}")

    def send(self, topic: str, table: Any) -> None:
        """Hand rows over to the producer; wait for older ones where they would fill its memory.

        Args:
            topic: Topic of the rows.
            table: A pyarrow table with columns named by roles.

        Raises:
            UnknownTopic: There is no such topic, and an option named it.
            TaskFailed: Rows name a missing topic, and more rows are bad than may be left out.
            KprodError: No row can be sent, for another reason.
        """
        self._make_room(_size_bytes(table))
        self._hand_over(topic, table)

    def feed(self, topic: str, rows: Any) -> None:
        """Append rows to a call that stays open until `end_feed`; only if none may be left out.

        Args:
            topic: Topic of the rows; the same until `end_feed`.
            rows: A pyarrow record batch with columns named by roles, the same until `end_feed`.

        Raises:
            KprodError: No further row can be sent.
        """
        size_bytes = _size_bytes(rows)
        self._make_room(self._fed_bytes + size_bytes)
        if self._feed is None:
            names = {role: role for role in ("value", *_ROLES) if role in rows.schema.names}
            self._feed = ArrowFeed(engine_of(self._producer).path, topic, names)
            self._fed_topic = topic
        self._fed_bytes += size_bytes
        self._feed.send(rows)

    def end_feed(self) -> None:
        """End the open call, if there is one, so that its last batches are sent."""
        feed, self._feed = self._feed, None
        size_bytes, self._fed_bytes = self._fed_bytes, 0
        receipt = None if feed is None else feed.end()
        if receipt is not None:
            self._sent.append(_Sent(self._fed_topic, receipt, size_bytes, None))
            self._in_flight_bytes += size_bytes

    def _hand_over(self, topic: str, table: Any) -> None:
        roles = {role: role for role in _ROLES if role in table.column_names}
        if topic in self._absent:
            self._leave_out_all(topic, table)
            return
        try:
            receipt = self._producer.send_arrow(topic, table, value="value", **roles)
        except UnknownTopic as error:
            cause = error.__cause__
            if not isinstance(cause, BrokerError) or not is_topic_fault(cause):
                raise
            if not self._rows_name_topics:
                raise
            self._note_absent(topic, cause, f"{type(error).__name__}: {error}")
            self._leave_out_all(topic, table)
            return
        rows = None if self._bad_rows is None else table
        sent = _Sent(topic, receipt, _size_bytes(table), rows)
        self._sent.append(sent)
        self._in_flight_bytes += sent.size_bytes

    def _make_room(self, size_bytes: int) -> None:
        """Wait until the oldest calls are done, if the producer's memory would be used up."""
        while self._sent and self._in_flight_bytes + size_bytes > self._in_flight_bytes_max:
            self._sent[0].receipt.exception()
            self._settle(self._next())

    def _next(self) -> _Sent:
        sent = self._sent.popleft()
        self._in_flight_bytes -= sent.size_bytes
        return sent

    def _note_absent(self, topic: str, cause: BrokerError, text: str) -> None:
        while len(self._absent) >= ABSENT_TOPICS_MAX:
            self._absent.pop(next(iter(self._absent)))
        self._absent[topic] = _TopicFault(fault_of(cause), text)

    def _leave_out_all(self, topic: str, table: Any) -> None:
        found = self._absent[topic]
        if self._bad_rows is None:
            raise TaskFailed(f"{counted(table.num_rows, 'row')} of a batch: {found.text}")
        for row in as_rows(table):
            self._bad_rows.leave_out_one(row, topic, found.fault, found.text)
        self._bad_rows.check_limits()

    def settle_done(self) -> None:
        """Check the receipts that are done, so that a failure ends the task soon.

        Raises:
            TaskFailed: A record is not delivered, and its row must not be left out.
        """
        while self._sent and self._sent[0].receipt.done():
            self._settle(self._next())

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
                self._settle(self._next())
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
        by_state = self._by_state(sent, failures)
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
            self._hand_over(sent.topic, sent.rows.take(pa.array(indices)))

    def _by_state(
        self, sent: _Sent, failures: Sequence[tuple[int, Exception]]
    ) -> dict[RowState, list[int]]:
        sharers = Counter(id(error) for _, error in failures)
        names_one = "partition" in sent.rows.column_names
        by_state: dict[RowState, list[int]] = {state: [] for state in RowState}
        for index, error in failures:
            outcome = outcome_of(
                error,
                names_topic=self._rows_name_topics,
                names_partition=names_one and sent.rows.column("partition")[index].is_valid,
                is_shared=sharers[id(error)] > 1,
            )
            by_state[NEXT_STATE[outcome]].append(index)
        return by_state


def _size_bytes(table: Any) -> int:
    return int(table.nbytes) + RECORD_OVERHEAD_BYTES * int(table.num_rows)


def _fail(sent: _Sent) -> NoReturn:
    error = sent.receipt.exception(0)
    raise TaskFailed(f"topic {sent.topic!r}: {error}") from error


def _span(offsets: Any) -> OffsetSpan:
    count, ranges = offsets
    if not ranges:
        return OffsetSpan(count, -1, -1)
    return OffsetSpan(count, min(r.first for r in ranges), max(r.last for r in ranges))
