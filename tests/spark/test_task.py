"""One task's rows into topics: rows that arrive, fail it, or are left out."""

import threading
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.clock import SystemClock
from kprod.errors import KprodError, UnknownPartition
from kprod.producer.produce_response import companions_error
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, error_for
from kprod.spark import settling
from kprod.spark.columns import Columns
from kprod.spark.options import SinkOptions, read_options
from kprod.spark.row_states import Outcome, outcome_of
from kprod.spark.task import TaskWriter
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import OffsetSpan

ROLES = ("value", "key", "headers", "topic", "partition", "timestamp")
LARGE = b"x" * 3_000
FAR_MS = 2 * 3_600_000  # an hour ahead is allowed
SETTINGS = {"max.request.size": "2000", "max.block.ms": "2000"}


@pytest.fixture
def cluster() -> Generator[EmbeddedCluster]:
    """Start a broker with two topics and one for dead letters.

    Yields:
        It.
    """
    with EmbeddedCluster(brokers=1, topics={"a": 2, "b": 1, "dead": 1}) as cluster:
        yield cluster


def options_of(cluster: EmbeddedCluster, **own: str) -> SinkOptions:
    """Return the options of a write to this cluster, dots written as two underscores."""
    given = {name.replace("__", "."): text for name, text in own.items()}
    return read_options(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": "1", **SETTINGS, **given}
    )


def write(options: SinkOptions, *batches: Any) -> TaskWriter:
    """Write batches whose columns are named by their roles."""
    names = set(batches[0].schema.names)
    columns = Columns(fields=(), **{role: role if role in names else None for role in ROLES})
    with Producer(options.settings) as producer:
        task = TaskWriter(producer, options, columns)
        task.write(iter(batches))
    return task


def values_of(cluster: EmbeddedCluster, topic: str) -> list[bytes | None]:
    """Return every value of a topic, partition by partition."""
    return [
        record.value for _, records in sorted(cluster.records(topic).items()) for record in records
    ]


def test_rows_arrive_with_everything(cluster: EmbeddedCluster) -> None:
    """Key, headers, partition, timestamp and topic are the row's; a null value is a tombstone."""
    batch = pa.record_batch(
        {
            "value": pa.array([b"one", None, b"three"]),
            "key": ["k1", "k2", None],
            "headers": pa.array(
                [[{"key": "h", "value": b"v"}], [], None],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "topic": ["a", "b", "a"],
            "partition": pa.array([1, None, 0], pa.int32()),
            "timestamp": pa.array([1_000, 2_000, 3_000], pa.timestamp("ms", "UTC")),
        }
    )
    task = write(options_of(cluster), batch)
    (one,) = cluster.records("a")[1]
    assert (one.key, one.value, one.timestamp_ms) == (b"k1", b"one", 1_000)
    assert list(one.headers) == [("h", b"v")]
    (two,) = cluster.records("b")[0]
    assert (two.key, two.value, two.timestamp_ms) == (b"k2", None, 2_000)
    (three,) = cluster.records("a")[0]
    assert (three.key, three.value, list(three.headers)) == (None, b"three", [])
    assert task.report.spans == {
        "a": {0: OffsetSpan(1, 0, 0), 1: OffsetSpan(1, 0, 0)},
        "b": {0: OffsetSpan(1, 0, 0)},
    }


def test_no_rows_at_all(cluster: EmbeddedCluster) -> None:
    """An empty partition of a query is a task too."""
    empty = pa.record_batch({"value": pa.array([], pa.string())})
    assert write(options_of(cluster, topic="a"), empty).report.spans == {}


def test_a_null_topic_fails_the_task(cluster: EmbeddedCluster) -> None:
    """Unless the rows may be left out; then they are counted."""
    batch = pa.record_batch({"value": ["x", "y", "z"], "topic": [None, "b", None]})
    with pytest.raises(TaskFailed, match=r"2 rows of a batch .*null topic.*filter such rows"):
        write(options_of(cluster), batch)
    task = write(options_of(cluster, on_record_error="skip"), batch)
    assert task.report.skipped_count == 2
    assert values_of(cluster, "b") == [b"y"]


def test_a_row_that_is_too_large_fails_the_task(cluster: EmbeddedCluster) -> None:
    """The error names the topic, the size and the setting."""
    batch = pa.record_batch({"value": [b"small", LARGE]})
    with pytest.raises(TaskFailed, match=r"topic 'a'.*1 of 2.*max_request_size=2000"):
        write(options_of(cluster, topic="a"), batch)


def test_rows_at_fault_are_left_out(cluster: EmbeddedCluster) -> None:
    """Too large, or for a partition that is not there; the others arrive."""
    batch = pa.record_batch(
        {
            "value": [b"good", LARGE, b"nowhere", b"fine"],
            "partition": pa.array([0, 0, 99, 0], pa.int32()),
        }
    )
    task = write(options_of(cluster, topic="a", on_record_error="skip"), batch)
    assert values_of(cluster, "a") == [b"good", b"fine"]
    assert task.report.skipped_count == 2
    assert task.report.spans == {"a": {0: OffsetSpan(2, 0, 1)}}


def test_rows_at_fault_become_dead_letters(cluster: EmbeddedCluster) -> None:
    """With where they should have gone and why not; a row that is too large, by its length."""
    batch = pa.record_batch(
        {
            "value": [LARGE, b"nowhere", b"topicless"],
            "key": [b"1", b"2", b"3"],
            "headers": pa.array(
                [None, [{"key": "own", "value": b"h"}], []],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "partition": pa.array([None, 99, None], pa.int32()),
            "topic": ["a", "a", None],
        }
    )
    task = write(options_of(cluster, on_record_error="dlq:dead"), batch)
    assert task.report.dead_letter_count == 3
    letters = {record.key: record for record in cluster.records("dead")[0]}
    headers = {
        key: {name: value or b"" for name, value in record.headers}
        for key, record in letters.items()
    }
    assert letters[b"1"].value is None
    assert headers[b"1"]["kprod.value.bytes"] == b"3000"
    assert headers[b"1"]["kprod.topic"] == b"a"
    assert headers[b"1"]["kprod.error"].startswith(b"RecordTooLarge: ")
    assert letters[b"2"].value == b"nowhere"
    assert headers[b"2"]["own"] == b"h"
    assert headers[b"2"]["kprod.error"].startswith(b"UnknownPartition: ")
    assert headers[b"3"]["kprod.topic"] == b""


def test_a_broker_that_rejects_fails_the_task_in_every_mode(cluster: EmbeddedCluster) -> None:
    """An error that another row would get, too, is no row's fault."""
    batch = pa.record_batch({"value": [b"x"]})
    for mode in ("fail", "skip", "dlq:dead"):
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
        with pytest.raises(TaskFailed, match="TopicAuthorizationFailed"):
            write(options_of(cluster, topic="a", on_record_error=mode), batch)
    assert values_of(cluster, "dead") == []


def test_what_the_broker_rejects_of_a_row_is_its_fault(cluster: EmbeddedCluster) -> None:
    """A record that the topic's rules forbid is left out like one that is too large here."""
    batch = pa.record_batch({"value": [b"x"]})
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_TIMESTAMP, times=1)
    task = write(options_of(cluster, topic="a", on_record_error="skip"), batch)
    assert task.report.skipped_count == 1


def test_sound_rows_of_a_rejected_batch_are_sent_again(cluster: EmbeddedCluster) -> None:
    """The broker names the rows at fault; only these are left out, whatever batch they were in."""
    now_ms = SystemClock().timestamp_ms()
    batch = pa.record_batch(
        {
            "value": [b"good", b"late", b"fine", b"too late", b"well"],
            "timestamp": pa.array(
                [now_ms, now_ms + FAR_MS, now_ms, now_ms + FAR_MS, now_ms],
                pa.timestamp("ms", "UTC"),
            ),
        }
    )
    task = write(options_of(cluster, topic="b", on_record_error="skip"), batch)
    assert values_of(cluster, "b") == [b"good", b"fine", b"well"]
    assert task.report.skipped_count == 2
    assert task.report.spans == {"b": {0: OffsetSpan(3, 0, 2)}}


def test_rows_of_a_batch_that_is_rejected_as_a_whole_are_tried_in_parts(
    cluster: EmbeddedCluster,
) -> None:
    """Nobody says which row is at fault; it is found, and the others arrive."""
    values = [b"%d" % n for n in range(9)]
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD, times=3)
    batch = pa.record_batch({"value": values})
    task = write(options_of(cluster, topic="b", on_record_error="skip"), batch)
    found = values_of(cluster, "b")
    assert len(found) + task.report.skipped_count == len(values)
    assert len(found) == len(set(found)) >= len(values) - 2


def test_a_row_at_fault_need_not_be_valid_text(cluster: EmbeddedCluster) -> None:
    """Spark's strings may hold any bytes; a dead letter has them as they are."""
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    batch = pa.record_batch({"value": text, "partition": pa.array([99], pa.int32())})
    write(options_of(cluster, topic="a", on_record_error="dlq:dead"), batch)
    assert values_of(cluster, "dead") == [b"\xff\xfe"]


class _Rejected:
    """A receipt whose only row has failed."""

    failed_count = 1

    def __init__(self, error: Exception) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def delivered(self) -> dict[int, object]:
        return {}

    def failures(self) -> list[tuple[int, Exception]]:
        return [(0, self._error)]

    def exception(self, timeout: float) -> Exception:
        return KprodError(f"1 of 1 records is not delivered within {timeout} s")


class _Rejecting:
    """A producer whose every row fails."""

    _kprod = SimpleNamespace(config=SimpleNamespace(buffer_memory=1 << 20))

    def __init__(self, error: Exception) -> None:
        self._error = error

    def send_arrow(self, *_: object, **__: object) -> _Rejected:
        return _Rejected(self._error)

    def flush(self, _: object) -> int:
        return 1


def _written_in_vain(options: SinkOptions, error: Exception, **columns: Any) -> TaskWriter:
    """Write a row whose record fails."""
    roles = Columns(fields=(), **{role: role if role in columns else None for role in ROLES})
    task = TaskWriter(cast("Producer", _Rejecting(error)), options, roles)
    task.write(iter([pa.record_batch(columns)]))
    return task


def test_a_topic_made_again_is_no_fault_of_rows_that_name_no_partition(
    cluster: EmbeddedCluster,
) -> None:
    """Their keys chose one that was there: such rows are never left out."""
    options = options_of(cluster, topic="a", on_record_error="skip")
    gone = UnknownPartition("partition 7 of 'a' is gone")
    with pytest.raises(TaskFailed):
        _written_in_vain(options, gone, value=[b"x"])
    partition = pa.array([7], pa.int32())
    assert _written_in_vain(options, gone, value=[b"x"], partition=partition).report.skipped_count


def test_rows_that_are_rejected_for_none_of_them_are_not_sent_for_ever(
    cluster: EmbeddedCluster,
) -> None:
    """A broker that names records which are not in the batch fails the task."""
    options = options_of(cluster, topic="a", on_record_error="skip")
    companion = companions_error(error_for(ErrorCode.INVALID_RECORD, "?"), {9: KprodError("?")})
    with pytest.raises(TaskFailed):
        _written_in_vain(options, companion, value=[b"x"])


class _Slow:
    """A producer whose calls are done when they are waited for."""

    def __init__(self) -> None:
        self._kprod = SimpleNamespace(config=SimpleNamespace(buffer_memory=1 << 20), path=self)
        self.in_flight_bytes = 0
        self.most_bytes = 0
        self.call_count = 0
        self.is_flushed = False

    def send_arrow(self, _: str, table: Any, **__: object) -> "_Slow.Receipt":
        self.in_flight_bytes += table.nbytes
        self.most_bytes = max(self.most_bytes, self.in_flight_bytes)
        self.call_count += 1
        return self.Receipt(self, table)

    def flush(self, _: object) -> int:
        self.is_flushed = True
        return 0

    class Receipt:
        """The receipt of one call."""

        failed_count = 0

        def __init__(self, producer: "_Slow", table: Any) -> None:
            self._producer = producer
            self._table = table
            self._is_done = False

        def exception(self) -> None:
            self._producer.in_flight_bytes -= self._table.nbytes
            self._is_done = True

        def done(self) -> bool:
            return self._producer.is_flushed or self._is_done

        def delivered(self) -> dict[int, Any]:
            return {0: (self._table.num_rows, [])}


class _SlowFeed:
    """A feed to such a producer, which its path is."""

    def __init__(self, path: _Slow, *_: object) -> None:
        self._producer = path
        self._tables: list[Any] = []

    def send(self, table: Any) -> None:
        self._producer.in_flight_bytes += table.nbytes
        self._producer.most_bytes = max(self._producer.most_bytes, self._producer.in_flight_bytes)
        self._tables.append(table)

    def end(self) -> _Slow.Receipt:
        self._producer.call_count += 1
        return _Slow.Receipt(self._producer, pa.Table.from_batches(self._tables))


@pytest.mark.parametrize("mode", ["fail", "skip"])
def test_the_producers_memory_is_never_used_up(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Calls wait for older ones first: out of memory, a producer sends small batches."""
    monkeypatch.setattr(settling, "ArrowFeed", _SlowFeed)
    batch = pa.record_batch({"value": [b"x" * 10_000] * 3})
    slow = _Slow()
    roles = Columns(fields=(), **{role: role if role == "value" else None for role in ROLES})
    options = options_of(cluster, topic="a", on_record_error=mode)
    task = TaskWriter(cast("Producer", slow), options, roles)
    task.write(iter([batch] * 400))
    assert slow.call_count > 40
    assert 1 << 19 < slow.most_bytes <= 3 << 18
    assert task.report.spans["a"][0].record_count == 1_200


def test_full_batches_are_sent_while_rows_come(cluster: EmbeddedCluster) -> None:
    """Where no row may be left out, none is kept."""
    options = options_of(cluster, topic="b", batch__size="2000", max__block__ms="30000")
    clock = SystemClock()
    deadline_ms = clock.now_ms() + 30_000

    def rows() -> Generator[Any]:
        yield pa.record_batch({"value": [b"x" * 500] * 10})
        while not values_of(cluster, "b"):
            assert clock.now_ms() < deadline_ms, "nothing is sent before the end"
            threading.Event().wait(0.01)
        yield pa.record_batch({"value": [b"last"]})

    roles = Columns(fields=(), **{role: role if role == "value" else None for role in ROLES})
    with Producer(options.settings) as producer:
        TaskWriter(producer, options, roles).write(rows())
    assert values_of(cluster, "b")[-1] == b"last"


def test_rows_before_a_failure_of_the_query_are_sent(cluster: EmbeddedCluster) -> None:
    """They are with the producer already; the retry repeats them."""
    options = options_of(cluster, topic="b")

    def rows() -> Generator[Any]:
        yield pa.record_batch({"value": [b"x"]})
        raise RuntimeError("the query failed")

    roles = Columns(fields=(), **{role: role if role == "value" else None for role in ROLES})
    with Producer(options.settings) as producer:
        with pytest.raises(RuntimeError, match="the query failed"):
            TaskWriter(producer, options, roles).write(rows())
        producer.flush()
    assert values_of(cluster, "b") == [b"x"]


@pytest.mark.parametrize("mode", ["fail", "skip"])
def test_small_arrow_batches_make_large_record_batches(cluster: EmbeddedCluster, mode: str) -> None:
    """A producer would end its batches with each array; so it gets many in one call."""
    arrow = [pa.record_batch({"value": [b"x" * 100] * 20}) for _ in range(50)]
    options = options_of(
        cluster,
        topic="b",
        linger__ms="1000",
        max__request__size="1000000",
        on_record_error=mode,
    )
    roles = Columns(fields=(), **{role: role if role == "value" else None for role in ROLES})
    with Producer(options.settings) as producer:
        TaskWriter(producer, options, roles).write(iter(arrow))
        assert producer.metrics()["producer-metrics"]["batch-send-total"] == 1
    assert len(cluster.records("b")[0]) == 1_000


@pytest.mark.parametrize("row_count", [1, 3])
def test_a_topic_that_brokers_keep_for_themselves(cluster: EmbeddedCluster, row_count: int) -> None:
    """It is the fault of the rows that name it; where the option does, of the task."""
    batch = pa.record_batch({"value": [b"x"] * row_count, "topic": ["b"] * row_count})
    for options in (
        options_of(cluster, on_record_error="dlq:dead"),
        options_of(cluster, on_record_error="dlq:dead", topic="b"),
    ):
        cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_TOPIC_EXCEPTION, times=1)
        if options.topic is None:
            assert write(options, batch).report.bad_rows == {"unusable topic": row_count}
        else:
            with pytest.raises(TaskFailed, match="INVALID_TOPIC_EXCEPTION"):
                write(options, batch)
    assert len(cluster.records("dead")[0]) == row_count


def test_brokers_that_are_slow_end_the_task_in_time(cluster: EmbeddedCluster) -> None:
    """After flush.timeout.ms, with the count of unsettled records."""
    cluster.faults.drop(ApiKey.PRODUCE, times=1)
    batch = pa.record_batch({"value": [b"x", b"y"]})
    options = options_of(
        cluster,
        topic="a",
        flush__timeout__ms="100",
        delivery__timeout__ms="3000",
        request__timeout__ms="2000",
    )
    with pytest.raises(
        TaskFailed, match=r"2 records were not settled within flush\.timeout\.ms=100"
    ):
        write(options, batch)


def test_a_topic_that_is_not_there(cluster: EmbeddedCluster) -> None:
    """The task fails within max.block.ms and says which topic."""
    cluster.forget_topic("a")
    options = options_of(
        cluster, topic="a", max__block__ms="100", allow__auto__create__topics="false"
    )
    with pytest.raises(KprodError, match="'a'"):
        write(options, pa.record_batch({"value": [b"x"]}))


@pytest.mark.slow
def test_many_batches_arrive_in_order(cluster: EmbeddedCluster) -> None:
    """Also when they are more than one gathering."""
    batches = [
        pa.record_batch({"value": [b"%04d" % (100 * n + m) + b"." * 996 for m in range(100)]})
        for n in range(100)
    ]
    task = write(options_of(cluster, topic="b"), *batches)
    found = [value[:4] for value in values_of(cluster, "b") if value is not None]
    assert found == [b"%04d" % n for n in range(10_000)]
    assert task.report.spans == {"b": {0: OffsetSpan(10_000, 0, 9_999)}}


def test_an_error_without_an_outcome_is_nobodys_fault() -> None:
    """Only faults known to be the row's are taken for it."""
    outcome = outcome_of(KprodError("?"), names_partition=True, is_shared=False)
    assert outcome is Outcome.ELSE
